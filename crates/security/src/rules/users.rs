//! Requests about users and groups, and who may make them, for `sector user`, `sector group` and `whoami`. The caller's
//! rights are looked up again here, since a session may outlast them. They are never taken from what the master sent.

use protocol::{
    CredentialId, Now, Reason, Refusal, UserName,
    message::{
        accounts::{AccountsReply, AccountsRequest, GroupStatus, NewUser, UserChange, UserStatus},
        master_security::{Asker, HeldSession, KnownUser, SecurityReply},
        request::{
            AccessKeyOwnerRequest, AddAccessKeyRequest, AddGroupRequest, AddTokenRequest, ChangeUserRequest,
            GroupsRequest, RemoveGroupRequest, RemoveUserRequest, RevokeSessionRequest, RevokeSessionsOfRequest,
            RevokeTokenRequest, SessionsRequest, SetMemberRequest, SetPasswordRequest, TokensRequest, UsersRequest,
            WhoAmIRequest,
        },
    },
};
use store::RowChange;

use super::{
    Security, SecurityCaller,
    pending::{Pending, PendingUser, Work},
    too_busy,
};
use crate::{
    SecurityError,
    accounts::{
        self, User,
        password_hash::{PASSWORD_BYTES_MIN, PasswordHash, PasswordHashing},
    },
};

/// An answer, if it need not wait for anything.
pub(super) type AccountsResult = Result<Option<AccountsReply>, Refusal>;

impl Security {
    pub(super) fn handle_accounts(&mut self, now: Now, caller: SecurityCaller, by: Asker, request: AccountsRequest) {
        let outcome = match request {
            AccountsRequest::WhoAmI(WhoAmIRequest) => self.asker(now, &by).map(|you| Some(AccountsReply::You(you))),
            AccountsRequest::Users(UsersRequest { after }) => self.users(now, &by, after.as_ref()).map(Some),
            AccountsRequest::AddUser(new) => self.begin_add_user(now, caller, by, new),
            AccountsRequest::RemoveUser(RemoveUserRequest(user)) => self.remove_user(now, caller, &by, &user),
            AccountsRequest::ChangeUser(ChangeUserRequest { user, change }) => {
                self.change_user(now, caller, &by, &user, change)
            }
            AccountsRequest::SetPassword(SetPasswordRequest { user, old, new }) => {
                self.set_password(now, caller, by, user, old, new)
            }
            AccountsRequest::Groups(GroupsRequest { after }) => self.groups(now, &by, after.as_deref()).map(Some),
            AccountsRequest::AddGroup(AddGroupRequest(group)) => self.add_group(now, caller, &by, &group),
            AccountsRequest::RemoveGroup(RemoveGroupRequest(group)) => self.remove_group(now, caller, &by, &group),
            AccountsRequest::SetMember(SetMemberRequest { group, user, member }) => {
                self.set_member(now, caller, &by, (group, user), member)
            }
            AccountsRequest::AddToken(AddTokenRequest { user, name, life_seconds }) => {
                self.add_token(now, caller, &by, (user, name), life_seconds)
            }
            AccountsRequest::AddAccessKey(AddAccessKeyRequest { user, life_seconds }) => {
                self.add_access_key(now, caller, &by, &user, life_seconds)
            }
            AccountsRequest::AccessKeyOwner(AccessKeyOwnerRequest(id)) => {
                self.access_key_owner(now, &by, &id).map(Some)
            }
            AccountsRequest::Tokens(TokensRequest(user)) => self.tokens(now, &by, &user).map(Some),
            AccountsRequest::RevokeToken(RevokeTokenRequest { user, name }) => {
                self.revoke_token(now, caller, &by, (user, name))
            }
            AccountsRequest::Sessions(SessionsRequest { after }) => self.sessions(now, &by, after).map(Some),
            AccountsRequest::RevokeSession(RevokeSessionRequest(session)) => {
                self.revoke_session(now, caller, &by, session)
            }
            AccountsRequest::RevokeSessionsOf(RevokeSessionsOfRequest(user)) => {
                self.revoke_sessions_of(now, caller, &by, user)
            }
        };
        match outcome {
            Ok(Some(reply)) => self.answer(caller, SecurityReply::Accounts(reply)),
            Ok(None) => {}
            Err(refusal) => self.refuse(caller, refusal),
        }
    }

    fn users(&self, now: Now, by: &Asker, after: Option<&UserName>) -> Result<AccountsReply, Refusal> {
        self.check_admin(now, by, "see all users")?;
        let mut rest = self.accounts.users_after(after);
        let users = rest.by_ref().take(PAGE_USERS_MAX).map(|(name, user)| self.status(name, user)).collect();
        Ok(AccountsReply::Users { users, more: rest.next().is_some() })
    }

    fn begin_add_user(&mut self, now: Now, caller: SecurityCaller, by: Asker, new: NewUser) -> AccountsResult {
        self.check_new(now, &by, &new)?;
        match new.password.clone() {
            None => self.save_user(caller, new, None),
            Some(_) if !self.has_room() => return Err(too_busy()),
            Some(password) => {
                check_password(&new.user, &password.0)?;
                let hashing = PasswordHashing::new(password.0).map_err(|error| error.refusal())?;
                self.begin_work(Pending::NewUser(PendingUser { caller, by, new }), Work::Hash(hashing));
            }
        }
        Ok(None)
    }

    /// The password of a new user is hashed.
    pub(super) fn add_user(&mut self, now: Now, adding: PendingUser, hash: Result<PasswordHash, SecurityError>) {
        let PendingUser { caller, by, new } = adding;
        // Checked again: much may have changed meanwhile.
        let hash = self.check_new(now, &by, &new).and_then(|()| hash.map_err(|error| error.refusal()));
        match hash {
            Ok(hash) => self.save_user(caller, new, Some(hash)),
            Err(refusal) => self.refuse(caller, refusal),
        }
    }

    fn check_new(&self, now: Now, by: &Asker, new: &NewUser) -> Result<(), Refusal> {
        self.check_admin(now, by, "add users")?;
        if self.accounts.user(&new.user).is_some() {
            return Err(SecurityError::UserExists(new.user.clone()).refusal());
        }
        if self.accounts.users().count() >= USERS_MAX {
            return Err(SecurityError::TooMany { what: "users", most: USERS_MAX }.refusal());
        }
        if new.service && new.password.is_some() {
            let message = "a service account has no password; add a token with `sector user token add`";
            return Err(Refusal::new(Reason::Invalid, message));
        }
        check_counts(new.groups.len(), &new.addresses)?;
        new.groups.iter().try_for_each(|group| self.check_group_exists(group))
    }

    fn save_user(&mut self, caller: SecurityCaller, new: NewUser, password: Option<PasswordHash>) {
        let NewUser { user, groups, admin, addresses, service, password: _ } = new;
        let row = User { password, tokens: vec![], groups, admin, addresses, service, disabled: false };
        let row = accounts::set_user(&user, &row);
        self.change_of(caller, user, row.map(|row| vec![row]));
    }

    fn remove_user(&mut self, now: Now, caller: SecurityCaller, by: &Asker, user: &UserName) -> AccountsResult {
        self.check_admin(now, by, "remove users")?;
        self.account(user)?;
        self.check_not_last_admin(user)?;
        let mut changes = self.ends_of_sessions(user, None);
        changes.extend([accounts::remove_user(user), accounts::remove_origin(user)]);
        self.change_of(caller, user.clone(), Ok(changes));
        Ok(None)
    }

    fn change_user(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        by: &Asker,
        user: &UserName,
        change: UserChange,
    ) -> AccountsResult {
        self.check_admin(now, by, "change users")?;
        let mut account = self.account(user)?.clone();
        let mut changes = Vec::new();
        match change {
            UserChange::Enabled(true) => account.disabled = false,
            UserChange::Enabled(false) => {
                self.check_not_last_admin(user)?;
                account.disabled = true;
                changes = self.ends_of_sessions(user, None);
            }
            UserChange::Admin(admin) => {
                self.check_is_ours(user)?;
                if !admin {
                    self.check_not_last_admin(user)?;
                }
                account.admin = admin;
            }
            UserChange::Addresses(addresses) => {
                check_counts(0, &addresses)?;
                check_keeps_asker(by, user, &addresses)?;
                account.addresses = addresses;
            }
        }
        let row = accounts::set_user(user, &account);
        self.change_of(caller, user.clone(), row.map(|row| changes.into_iter().chain([row]).collect()));
        Ok(None)
    }

    fn groups(&self, now: Now, by: &Asker, after: Option<&str>) -> Result<AccountsReply, Refusal> {
        self.check_admin(now, by, "see all groups")?;
        let mut rest = self.accounts.groups().iter().filter(|group| after.is_none_or(|after| group.as_str() > after));
        let (mut groups, mut told) = (Vec::new(), 0);
        while told < PAGE_USERS_MAX
            && let Some(group) = rest.next()
        {
            let is_in = |(_, user): &(&UserName, &User)| user.groups.contains(group);
            let members: Vec<_> = self.accounts.users().filter(is_in).map(|(name, _)| name.clone()).collect();
            told += 1 + members.len();
            groups.push(GroupStatus { group: group.clone(), members });
        }
        Ok(AccountsReply::Groups { groups, more: rest.next().is_some() })
    }

    fn add_group(&mut self, now: Now, caller: SecurityCaller, by: &Asker, group: &str) -> AccountsResult {
        self.check_admin(now, by, "add groups")?;
        accounts::check_group(group).map_err(|error| error.refusal())?;
        if self.accounts.groups().contains(group) {
            return Err(SecurityError::GroupExists(group.to_owned()).refusal());
        }
        if self.accounts.groups().len() >= GROUPS_MAX {
            return Err(SecurityError::TooMany { what: "groups", most: GROUPS_MAX }.refusal());
        }
        let row = accounts::set_group(group);
        self.change(caller, row.map(|row| vec![row]), SecurityReply::Accounts(AccountsReply::Done));
        Ok(None)
    }

    fn remove_group(&mut self, now: Now, caller: SecurityCaller, by: &Asker, group: &str) -> AccountsResult {
        self.check_admin(now, by, "remove groups")?;
        self.check_group_exists(group)?;
        let members = self.accounts.users().filter(|(_, user)| user.groups.iter().any(|of| of == group));
        let members: Vec<_> = members.map(|(name, user)| (name.clone(), user.clone())).collect();
        let without = |(name, user): &(UserName, User)| {
            let groups = user.groups.iter().filter(|of| *of != group).cloned().collect();
            accounts::set_user(name, &User { groups, ..user.clone() })
        };
        let rows = members.iter().map(without).chain([Ok(accounts::remove_group(group))]).collect();
        for (name, _) in members {
            self.changes.note(name);
        }
        self.change(caller, rows, SecurityReply::Accounts(AccountsReply::Done));
        Ok(None)
    }

    fn set_member(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        by: &Asker,
        (group, user): (String, UserName),
        member: bool,
    ) -> AccountsResult {
        self.check_admin(now, by, "say who is in a group")?;
        self.check_group_exists(&group)?;
        let mut account = self.account(&user)?.clone();
        self.check_is_ours(&user)?;
        account.groups.retain(|of| *of != group);
        if member {
            account.groups.push(group);
        }
        check_counts(account.groups.len(), &[])?;
        let row = accounts::set_user(&user, &account);
        self.change_of(caller, user, row.map(|row| vec![row]));
        Ok(None)
    }

    fn status(&self, name: &UserName, user: &User) -> UserStatus {
        UserStatus {
            user: name.clone(),
            groups: user.groups.clone(),
            admin: user.admin,
            addresses: user.addresses.clone(),
            has_password: user.password.is_some(),
            tokens: u32::try_from(user.tokens.len()).unwrap_or(u32::MAX),
            service: user.service,
            enabled: !user.disabled,
            provider: self.accounts.origin(name).map(|origin| origin.provider.clone()),
        }
    }

    /// Makes changes of one user's account, and tells masters whose it is.
    pub(super) fn change_of(
        &mut self,
        caller: SecurityCaller,
        user: UserName,
        changes: Result<Vec<RowChange>, SecurityError>,
    ) {
        self.changes.note(user);
        self.change(caller, changes, SecurityReply::Accounts(AccountsReply::Done));
    }

    /// The rows that end a user's login sessions, except one.
    pub(super) fn ends_of_sessions(&self, user: &UserName, but: Option<CredentialId>) -> Vec<RowChange> {
        let others = self.accounts.sessions_of(user).filter(|(id, _)| Some(*id) != but);
        others.map(|(id, _)| accounts::remove_session(id)).collect()
    }

    /// The caller, as their account is now.
    pub(super) fn asker(&self, now: Now, by: &Asker) -> Result<KnownUser, Refusal> {
        let user = &by.rights.user;
        let held = HeldSession { user: user.clone(), credential: by.credential, address: by.address };
        self.current_rights(now, &held).ok_or_else(|| {
            let message = format!("`{user}` may not come in any more, or the session has ended; log in again");
            Refusal::new(Reason::NotAuthenticated, message)
        })
    }

    /// Refuses a caller who is no administrator now, whatever the master believes.
    pub(super) fn check_admin(&self, now: Now, by: &Asker, what: &str) -> Result<(), Refusal> {
        if self.asker(now, by)?.rights.admin {
            return Ok(());
        }
        let message = format!("{} may not {what}; ask an administrator", by.rights.user);
        Err(Refusal::new(Reason::NoRight, message))
    }

    /// Refuses a caller who asks about another user and is no administrator now. Says whether they are one.
    pub(super) fn check_own(&self, now: Now, by: &Asker, user: &UserName, what: &str) -> Result<bool, Refusal> {
        let admin = self.asker(now, by)?.rights.admin;
        if !admin && by.rights.user != *user {
            self.check_admin(now, by, what)?;
        }
        Ok(admin)
    }

    pub(super) fn account(&self, user: &UserName) -> Result<&User, Refusal> {
        self.accounts.user(user).ok_or_else(|| SecurityError::NoSuchUser(user.clone()).refusal())
    }

    /// Refuses to change what an identity provider says of its user: the provider would say it again.
    pub(super) fn check_is_ours(&self, user: &UserName) -> Result<(), Refusal> {
        let Some(origin) = self.accounts.origin(user) else { return Ok(()) };
        let message = format!(
            "`{user}` is a user of the identity provider `{}`, which says password, groups and who administers; \
             change it there",
            origin.provider
        );
        Err(Refusal::new(Reason::NoRight, message))
    }

    fn check_group_exists(&self, group: &str) -> Result<(), Refusal> {
        accounts::check_group(group).map_err(|error| error.refusal())?;
        if self.accounts.groups().contains(group) {
            return Ok(());
        }
        Err(SecurityError::NoSuchGroup(group.to_owned()).refusal())
    }

    /// Refuses to take the last way to log in from the last administrator.
    pub(super) fn check_not_last_admin(&self, user: &UserName) -> Result<(), Refusal> {
        let is_last = self.accounts.user(user).is_some_and(can_administer)
            && !self.accounts.users().any(|(name, account)| name != user && can_administer(account));
        if is_last { Err(SecurityError::LastAdmin(user.clone()).refusal()) } else { Ok(()) }
    }
}

/// Whether this account can be relied on to administer the cloud: it has a credential that does not expire by itself.
pub(super) fn can_administer(account: &User) -> bool {
    let has_lasting_token = account.tokens.iter().any(|token| token.until_unix_millis.is_none());
    account.admin && !account.disabled && (account.password.is_some() || has_lasting_token)
}

/// Refuses ranges that would lock out a user who sets them for their own account. That would be a mistake, and the last
/// administrator could not undo it.
fn check_keeps_asker(by: &Asker, user: &UserName, addresses: &[protocol::AddressRange]) -> Result<(), Refusal> {
    let address = by.address.to_canonical();
    if by.rights.user != *user || protocol::AddressRange::allows(addresses, address) {
        return Ok(());
    }
    let message = format!("that would shut you out: you come from {address}; name a range with that address too");
    Err(Refusal::new(Reason::NotPermitted, message))
}

/// Refuses a password that its user's name gives away.
pub(super) fn check_password(user: &UserName, password: &str) -> Result<(), Refusal> {
    let (password, name) = (password.to_lowercase(), user.as_str().to_lowercase());
    if password == name || (name.len() >= TELLING_NAME_BYTES && password.contains(&name)) {
        return Err(Refusal::new(Reason::Invalid, "a password may not contain the user's name; choose another"));
    }
    // A short name may occur by chance. What remains without it must still be a password.
    if password.contains(&name) && password.replace(&name, "").len() < PASSWORD_BYTES_MIN {
        let message = "without the user's name too little of the password is left; choose another";
        return Err(Refusal::new(Reason::Invalid, message));
    }
    Ok(())
}

fn check_counts(groups: usize, addresses: &[protocol::AddressRange]) -> Result<(), Refusal> {
    let too_many = |what, most| Err(SecurityError::TooMany { what, most }.refusal());
    match () {
        () if groups > GROUPS_OF_USER_MAX => too_many("groups of one user", GROUPS_OF_USER_MAX),
        () if addresses.len() > ADDRESSES_MAX => too_many("address ranges of one user", ADDRESSES_MAX),
        () => Ok(()),
    }
}

/// Names of this length and more may not occur in their user's password; shorter ones do by chance.
const TELLING_NAME_BYTES: usize = 4;
/// Most users of one page: with all groups and addresses that they may have, below what a message holds.
const PAGE_USERS_MAX: usize = 100;
/// Most users: all of them are in memory, and a group with all of them fits a message.
pub(super) const USERS_MAX: usize = 10_000;
/// Most groups.
const GROUPS_MAX: usize = 1_000;
/// Most groups of one user: they travel with every question to the security server.
const GROUPS_OF_USER_MAX: usize = 64;
/// Most ranges of addresses from which one user may log in.
const ADDRESSES_MAX: usize = 64;
