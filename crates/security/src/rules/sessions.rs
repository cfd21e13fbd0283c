//! Tokens and login sessions as people see and end them, for `sector user token`, `sector session` and `logout`. Users
//! who are not administrators never see or end those of others.

use protocol::{
    CredentialId, Now, Reason, Refusal, UserName,
    message::{
        accounts::{AccountsReply, NewSession, SessionStatus, TOKEN_LIFE_SECONDS_MAX, TokenStatus, is_access_key_id},
        master_security::{Asker, SecurityReply},
    },
};

use super::{
    Security, SecurityCaller,
    users::{AccountsResult, can_administer},
};
use crate::{
    SecurityError,
    accounts::{
        self, User,
        credentials::{LoginSession, TOKENS_MAX, Token},
        password_hash::TokenHash,
    },
};

/// A token that is to be added.
pub(super) struct NewToken<'a> {
    /// Whose.
    pub(super) user: &'a UserName,
    /// What it is called.
    pub(super) name: String,
    /// The token itself.
    pub(super) token: [u8; 32],
    /// How long it is good.
    pub(super) life_seconds: u64,
}

impl Security {
    pub(super) fn add_token(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        by: &Asker,
        (user, name): (UserName, String),
        life_seconds: u64,
    ) -> AccountsResult {
        if UserName::new(name.as_str()).is_err() || is_access_key_id(&name) {
            let message = "a token's name has 1 to 64 letters, digits, `-`, `_` and `.`, and is not like the id of an \
                           access key; choose another";
            return Err(Refusal::new(Reason::Invalid, message));
        }
        let token = (self.random)();
        let (credential, until_unix_millis, account) =
            self.with_token(now, by, NewToken { user: &user, name, token, life_seconds })?;
        let reply = AccountsReply::Token(NewSession { credential, token, until_unix_millis });
        let row = accounts::set_user(&user, &account);
        self.change(caller, row.map(|row| vec![row]), SecurityReply::Accounts(reply));
        Ok(None)
    }

    /// The user's account with a further token, which `by` may give. Also the token's id, and until when it is good.
    pub(super) fn with_token(
        &self,
        now: Now,
        by: &Asker,
        NewToken { user, name, token, life_seconds }: NewToken<'_>,
    ) -> Result<(CredentialId, u64, User), Refusal> {
        let admin = self.check_own(now, by, user, "give others a token")?;
        let is_token = self.account(&by.rights.user)?.tokens.iter().any(|token| token.id == by.credential);
        if !admin && is_token {
            // Otherwise a token that was stolen, or that expires, would have children that live on.
            let message = "a token makes no tokens; log in with `sector login` and add it then";
            return Err(Refusal::new(Reason::NotPermitted, message));
        }
        if !(1..=TOKEN_LIFE_SECONDS_MAX).contains(&life_seconds) {
            let days = TOKEN_LIFE_SECONDS_MAX / 86_400;
            return Err(Refusal::new(Reason::Invalid, format!("a token lives for a second to {days} days")));
        }
        let mut account = self.account(user)?.clone();
        // Expired tokens make room, even for one of the same name.
        account.tokens.retain(|token| token.is_good(now));
        if account.tokens.iter().any(|token| token.name == name) {
            return Err(SecurityError::TokenExists(user.clone(), name).refusal());
        }
        if account.tokens.len() >= TOKENS_MAX {
            return Err(SecurityError::TooMany { what: "tokens of one user", most: TOKENS_MAX }.refusal());
        }
        let (id, until_unix_millis) = (self.random_id(), now.unix_millis.saturating_add(life_seconds * 1_000));
        account.tokens.push(Token {
            id,
            name,
            hash: TokenHash::new(&token),
            made_unix_millis: now.unix_millis,
            until_unix_millis: Some(until_unix_millis),
            used_unix_millis: 0,
        });
        Ok((id, until_unix_millis, account))
    }

    pub(super) fn tokens(&self, now: Now, by: &Asker, user: &UserName) -> Result<AccountsReply, Refusal> {
        self.check_own(now, by, user, "see the tokens of others")?;
        let status = |token: &Token| TokenStatus {
            name: token.name.clone(),
            made_unix_millis: token.made_unix_millis,
            until_unix_millis: token.until_unix_millis,
            used_unix_millis: Some(token.used_unix_millis).filter(|used| *used != 0),
        };
        Ok(AccountsReply::Tokens(self.account(user)?.tokens.iter().map(status).collect()))
    }

    pub(super) fn revoke_token(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        by: &Asker,
        (user, name): (UserName, String),
    ) -> AccountsResult {
        self.check_own(now, by, &user, "revoke the tokens of others")?;
        let account = self.account(&user)?;
        let tokens: Vec<_> = account.tokens.iter().filter(|token| token.name != name).cloned().collect();
        if tokens.len() == account.tokens.len() {
            return Err(SecurityError::NoSuchToken(user, name).refusal());
        }
        let without = User { tokens, ..account.clone() };
        if !can_administer(&without) {
            self.check_not_last_admin(&user)?;
        }
        let row = accounts::set_user(&user, &without);
        self.change_of(caller, user, row.map(|row| vec![row]));
        Ok(None)
    }

    pub(super) fn sessions(&self, now: Now, by: &Asker, after: Option<CredentialId>) -> Result<AccountsReply, Refusal> {
        let you = self.asker(now, by)?.rights;
        let is_shown = |(id, session): &(&CredentialId, &LoginSession)| {
            after.is_none_or(|after| **id > after) && session.is_good(now) && (you.admin || session.user == you.user)
        };
        let mut rest = self.accounts.sessions().iter().filter(is_shown);
        let sessions = rest.by_ref().take(PAGE_SESSIONS_MAX).map(|(id, session)| status(*id, session)).collect();
        Ok(AccountsReply::Sessions { sessions, more: rest.next().is_some() })
    }

    pub(super) fn revoke_session(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        by: &Asker,
        id: CredentialId,
    ) -> AccountsResult {
        let you = self.asker(now, by)?.rights;
        let session = self.accounts.sessions().get(&id);
        // Another user's session is treated as missing, so that guessing ids reveals nothing.
        let Some(session) = session.filter(|session| you.admin || session.user == you.user) else {
            return Err(SecurityError::NoSuchSession(id).refusal());
        };
        let user = session.user.clone();
        self.change_of(caller, user, Ok(vec![accounts::remove_session(id)]));
        Ok(None)
    }

    pub(super) fn revoke_sessions_of(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        by: &Asker,
        user: UserName,
    ) -> AccountsResult {
        self.check_own(now, by, &user, "end the sessions of others")?;
        self.account(&user)?;
        let ends = self.ends_of_sessions(&user, None);
        self.change_of(caller, user, Ok(ends));
        Ok(None)
    }

    /// Forgets login sessions that have expired, some at a time.
    pub(super) fn forget_ended(&mut self, now: Now) {
        let ended = self.accounts.sessions().iter().filter(|(_, session)| !session.is_good(now));
        let ends = ended.take(FORGOTTEN_MAX).map(|(id, _)| accounts::remove_session(*id)).collect();
        // Best effort: they are invalid whether their rows are there or not.
        let _ = self.apply(ends);
    }
}

fn status(id: CredentialId, session: &LoginSession) -> SessionStatus {
    SessionStatus {
        session: id,
        user: session.user.clone(),
        machine: session.machine.clone(),
        address: session.address,
        began_unix_millis: session.began_unix_millis,
        until_unix_millis: session.until_unix_millis,
        used_unix_millis: session.used_unix_millis,
    }
}

/// Most sessions of one page: below half of what a message holds.
const PAGE_SESSIONS_MAX: usize = 500;
/// Most ended sessions forgotten in one go, so that one batch of rows stays small.
const FORGOTTEN_MAX: usize = 1_000;
