//! Access keys: tokens for doors that check signatures, such as S3. Who gets one, and who learns its secret. An access key
//! never outlives its token's row: who revokes the token ends it.

use data_encoding::BASE32;
use protocol::{
    Now, Reason, Refusal, UserName,
    message::{
        accounts::{
            ACCESS_KEY_ID_LETTERS, ACCESS_KEY_PREFIX, AccessKeyOwner, AccountsReply, GATEWAYS_GROUP, NewAccessKey,
            is_access_key_id,
        },
        master_security::{Asker, SecurityReply},
    },
};

use super::{Security, SecurityCaller, users::AccountsResult};
use crate::{
    accounts::{self, access_key_secrets::AccessKeySecrets, credentials::Token, password_hash::TokenHash},
    rules::sessions::NewToken,
};

impl Security {
    /// Makes access keys from now on.
    #[must_use]
    pub fn with_access_keys(mut self, secrets: AccessKeySecrets) -> Self {
        self.access_keys = Some(secrets);
        self
    }

    pub(super) fn add_access_key(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        by: &Asker,
        user: &UserName,
        life_seconds: u64,
    ) -> AccountsResult {
        let secrets = self.access_keys.clone().ok_or_else(no_access_keys)?;
        let letters = BASE32.encode(&(self.random)());
        let id = format!("{ACCESS_KEY_PREFIX}{}", &letters[..ACCESS_KEY_ID_LETTERS - ACCESS_KEY_PREFIX.len()]);
        let token = NewToken { user, name: id.clone(), token: secrets.token(&id), life_seconds };
        let (_, until_unix_millis, account) = self.with_token(now, by, token)?;
        let reply = AccountsReply::AccessKey(NewAccessKey { secret: secrets.secret(&id), id, until_unix_millis });
        let row = accounts::set_user(user, &account);
        self.change(caller, row.map(|row| vec![row]), SecurityReply::Accounts(reply));
        Ok(None)
    }

    pub(super) fn access_key_owner(&self, now: Now, by: &Asker, id: &str) -> Result<AccountsReply, Refusal> {
        let rights = self.asker(now, by)?.rights;
        if !rights.admin && !rights.groups.iter().any(|group| group == GATEWAYS_GROUP) {
            let message = format!(
                "{} may not learn whose access key it is; an administrator adds doors to the group `{GATEWAYS_GROUP}`",
                rights.user
            );
            return Err(Refusal::new(Reason::NoRight, message));
        }
        let secrets = self.access_keys.as_ref().ok_or_else(no_access_keys)?;
        let unknown = || Refusal::new(Reason::NotFound, format!("no user has an access key `{id}`"));
        if !is_access_key_id(id) {
            return Err(unknown());
        }
        let (token, hash) = (secrets.token(id), TokenHash::new(&secrets.token(id)));
        let is_it = |known: &Token| known.hash == hash && known.name == id && known.is_good(now);
        let mut users = self.accounts.users_after(None);
        let (user, _) = users.find(|(_, user)| user.tokens.iter().any(is_it)).ok_or_else(unknown)?;
        Ok(AccountsReply::AccessKeyOwner(AccessKeyOwner { user: user.clone(), secret: secrets.secret(id), token }))
    }
}

fn no_access_keys() -> Refusal {
    Refusal::new(Reason::NotPermitted, "this security server makes no access keys")
}
