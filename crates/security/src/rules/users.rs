//! What is asked about accounts, and who may: serves `sector user` and `whoami`. Whoever asks is looked up again here,
//! since a session may outlast what its user may do.

use protocol::{
    Refusal, Status, UserName,
    message::{
        accounts::{AccountsReply, AccountsRequest, NewUser, UserStatus},
        master_security::{Asker, KnownUser, SecurityReply, UserRights},
    },
};

use super::{Caller, Pending, Security, Work, too_busy};
use crate::{
    AddressRange, SecurityError,
    accounts::{self, User},
    secret::{Hashing, PasswordHash},
};

/// A user whose password is being hashed.
#[derive(Debug)]
pub(super) struct Adding {
    caller: Caller,
    by: Asker,
    new: NewUser,
}

impl Security {
    pub(super) fn handle_accounts(&mut self, caller: Caller, by: Asker, request: AccountsRequest) {
        let outcome = match request {
            AccountsRequest::WhoAmI => self.who_am_i(&by).map(Some),
            AccountsRequest::Users { after } => self.users(&by, after.as_ref()).map(Some),
            AccountsRequest::AddUser(new) => self.begin_adding(caller, by, new),
            AccountsRequest::RemoveUser(user) => self.remove_user(caller, &by, &user),
        };
        match outcome {
            Ok(Some(reply)) => self.answer(caller, SecurityReply::Accounts(reply)),
            Ok(None) => {}
            Err(refusal) => self.refuse(caller, refusal),
        }
    }

    fn who_am_i(&self, by: &Asker) -> Result<AccountsReply, Refusal> {
        let account = self.asker(by)?;
        let rights = UserRights { user: by.rights.user.clone(), groups: account.groups.clone(), admin: account.admin };
        Ok(AccountsReply::You(KnownUser { rights, credential: by.credential, until_unix_millis: None }))
    }

    fn users(&self, by: &Asker, after: Option<&UserName>) -> Result<AccountsReply, Refusal> {
        self.check_admin(by, "see all users")?;
        let mut rest = self.accounts.users_after(after);
        let users = rest.by_ref().take(PAGE_USERS_MAX).map(|(name, user)| status(name, user)).collect();
        Ok(AccountsReply::Users { users, more: rest.next().is_some() })
    }

    fn begin_adding(&mut self, caller: Caller, by: Asker, new: NewUser) -> Result<Option<AccountsReply>, Refusal> {
        self.check_new(&by, &new)?;
        match new.password.clone() {
            None => self.save_new(caller, new, None),
            Some(_) if !self.has_room() => return Err(too_busy()),
            Some(password) => {
                check_password(&new.user, &password.0)?;
                let hashing = Hashing::new(password.0).map_err(|error| error.refusal())?;
                self.begin_work(Pending::NewUser(Adding { caller, by, new }), Work::Hash(hashing));
            }
        }
        Ok(None)
    }

    /// The password of a new user is hashed.
    pub(super) fn add_user(&mut self, adding: Adding, hash: Result<PasswordHash, SecurityError>) {
        let Adding { caller, by, new } = adding;
        // Checked again: much may have changed meanwhile.
        let hash = self.check_new(&by, &new).and_then(|()| hash.map_err(|error| error.refusal()));
        match hash {
            Ok(hash) => self.save_new(caller, new, Some(hash)),
            Err(refusal) => self.refuse(caller, refusal),
        }
    }

    fn check_new(&self, by: &Asker, new: &NewUser) -> Result<(), Refusal> {
        self.check_admin(by, "add users")?;
        if self.accounts.user(&new.user).is_some() {
            return Err(SecurityError::UserExists(new.user.clone()).refusal());
        }
        new.groups.iter().try_for_each(|group| accounts::check_group(group)).map_err(|error| error.refusal())
    }

    fn save_new(&mut self, caller: Caller, new: NewUser, password: Option<PasswordHash>) {
        let NewUser { user, groups, admin, addresses, password: _ } = new;
        let row = accounts::set_user(&user, &User { password, tokens: vec![], groups, admin, addresses });
        self.change(caller, row.map(|row| vec![row]), SecurityReply::Accounts(AccountsReply::Done));
    }

    fn remove_user(&mut self, caller: Caller, by: &Asker, user: &UserName) -> Result<Option<AccountsReply>, Refusal> {
        self.check_admin(by, "remove users")?;
        let Some(account) = self.accounts.user(user) else {
            return Err(SecurityError::NoSuchUser(user.clone()).refusal());
        };
        if account.admin && self.accounts.users().filter(|(_, user)| user.admin).count() == 1 {
            return Err(SecurityError::LastAdmin(user.clone()).refusal());
        }
        let changes = vec![accounts::remove_user(user)];
        self.change(caller, Ok(changes), SecurityReply::Accounts(AccountsReply::Done));
        Ok(None)
    }

    /// The account of one who asks, as it is now.
    pub(super) fn asker(&self, by: &Asker) -> Result<&User, Refusal> {
        let user = &by.rights.user;
        let account = self.accounts.user(user).filter(|account| AddressRange::allows(&account.addresses, by.address));
        account.ok_or_else(|| {
            let sentence = format!("`{user}` may not come in any more; ask an administrator");
            Refusal::new(Status::Refused, sentence)
        })
    }

    /// Refuses whoever is no administrator now, whatever the master believes.
    pub(super) fn check_admin(&self, by: &Asker, what: &str) -> Result<(), Refusal> {
        if self.asker(by)?.admin {
            return Ok(());
        }
        let sentence = format!("{} may not {what}; ask an administrator", by.rights.user);
        Err(Refusal::new(Status::Refused, sentence))
    }
}

/// Refuses a password that its user's name gives away.
fn check_password(user: &UserName, password: &str) -> Result<(), Refusal> {
    let (password, name) = (password.to_lowercase(), user.as_str().to_lowercase());
    if password == name || (name.len() >= TELLING_NAME_BYTES && password.contains(&name)) {
        return Err(Refusal::new(Status::Usage, "a password may not contain the user's name; choose another"));
    }
    Ok(())
}

fn status(name: &UserName, user: &User) -> UserStatus {
    UserStatus {
        user: name.clone(),
        groups: user.groups.clone(),
        admin: user.admin,
        addresses: user.addresses.clone(),
        has_password: user.password.is_some(),
        tokens: u32::try_from(user.tokens.len()).unwrap_or(u32::MAX),
    }
}

/// Names of this length and more may not stand in their user's password; shorter ones do by chance.
const TELLING_NAME_BYTES: usize = 4;
/// Most users of one page: each with some groups and addresses, far below what a message holds.
const PAGE_USERS_MAX: usize = 200;
