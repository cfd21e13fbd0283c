//! `user` and `group`: who may log in, and which users belong together. It never decides who may change them: the
//! cloud does.

use client::{
    Client, NewUser, Password, Profile, QuotaOf, Reason, UserChange, UserName, is_access_key_id,
    views::{GroupView, TokenView, UserView},
};
use serde::Serialize;
use terminal::{
    failure::{Failure, Failures},
    session,
    show::{self, say},
};

use super::password_input::PasswordInput;
use crate::arguments::{Global, GroupCommand, KeyCommand, TokenCommand, UserCommand};

/// `sector user`.
pub(crate) async fn user(cloud: &Client, command: UserCommand, global: &Global) -> Result<(), Failure> {
    match command {
        UserCommand::Add { user, password_stdin, groups, admin, addresses, service } => {
            let password = if service {
                None
            } else {
                let prompt = format!("Password for {user}: ");
                Some(Password(PasswordInput::open(password_stdin)?.new_password(&prompt)?))
            };
            cloud.add_user(NewUser { user: user.clone(), password, groups, admin, addresses, service }).await?;
            tell_inherited(cloud, &user).await;
            Ok(())
        }
        UserCommand::Remove { user } => Ok(cloud.remove_user(&user).await?),
        UserCommand::List => list(cloud, global).await,
        UserCommand::Passwd { user, password_stdin } => passwd(cloud, user, password_stdin).await,
        UserCommand::Disable { user } => Ok(cloud.change_user(&user, UserChange::Enabled(false)).await?),
        UserCommand::Enable { user } => Ok(cloud.change_user(&user, UserChange::Enabled(true)).await?),
        UserCommand::Set { user, admin, addresses, any_address } => {
            if admin.is_none() && addresses.is_empty() && !any_address {
                return Err(Failure::usage("say what to change: --admin, --address or --any-address"));
            }
            if let Some(admin) = admin {
                cloud.change_user(&user, UserChange::Admin(admin)).await?;
            }
            if any_address || !addresses.is_empty() {
                cloud.change_user(&user, UserChange::Addresses(addresses)).await?;
            }
            Ok(())
        }
        UserCommand::Token(command) => token(cloud, command, global).await,
        UserCommand::Key(command) => key(cloud, command, global).await,
    }
}

/// Says what an earlier user of this name has left, which belongs to the name and so to the new user.
async fn tell_inherited(cloud: &Client, user: &UserName) {
    // The user is there, whether this can be told or not.
    let quotas = cloud.quotas().await.unwrap_or_default();
    let Some(left) = quotas.into_iter().find(|quota| quota.of == QuotaOf::User(user.clone())) else { return };
    let quota = if left.bytes.or(left.files).is_some() { " and has a quota" } else { "" };
    if left.used_files > 0 || !quota.is_empty() {
        let files = show::count(usize::try_from(left.used_files).unwrap_or(usize::MAX), "file");
        say!(
            "sector: the name {user} owns {files}{quota} from before, which the new user now has (`sector quota list`); \
             to prevent that, choose another name"
        );
    }
}

/// `sector group`.
pub(crate) async fn group(cloud: &Client, command: GroupCommand, global: &Global) -> Result<(), Failure> {
    match command {
        GroupCommand::Add { group } => Ok(cloud.add_group(&group).await?),
        GroupCommand::Remove { group } => Ok(cloud.remove_group(&group).await?),
        GroupCommand::Join { group, users } => set_members(cloud, &group, &users, true).await,
        GroupCommand::Leave { group, users } => set_members(cloud, &group, &users, false).await,
        GroupCommand::List => {
            let groups = cloud.groups().await?.into_iter().map(GroupView::from);
            if global.json {
                return show::json(&groups.collect::<Vec<_>>());
            }
            let rows: Vec<_> = groups.map(|group| vec![group.group, or_dash(group.members.join(", "))]).collect();
            show::table(&["group", "members"], &rows);
            Ok(())
        }
    }
}

/// A user who cannot be a member holds up no other.
async fn set_members(cloud: &Client, group: &str, users: &[UserName], is_in: bool) -> Result<(), Failure> {
    let mut failures = Failures::default();
    for user in users {
        failures.note(cloud.set_member(group, user, is_in).await.map_err(Failure::from));
    }
    failures.into_result()
}

async fn list(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let users = cloud.users().await?.into_iter().map(UserView::from);
    if global.json {
        return show::json(&users.collect::<Vec<_>>());
    }
    let row = |user: UserView| {
        let kind = match (user.enabled, user.admin, user.service) {
            (false, ..) => "disabled",
            (_, true, _) => "admin",
            (_, _, true) => "service",
            _ => "user",
        };
        let tokens = user.tokens.to_string();
        let addresses = or_dash(user.addresses.join(", "));
        let provider = user.provider.unwrap_or_else(|| "-".into());
        vec![user.user, kind.into(), or_dash(user.groups.join(", ")), tokens, addresses, provider]
    };
    show::table(&["user", "is", "groups", " tokens", "from", "provider"], &users.map(row).collect::<Vec<_>>());
    Ok(())
}

async fn passwd(cloud: &Client, user: Option<UserName>, from_stdin: bool) -> Result<(), Failure> {
    let user = user.unwrap_or_else(|| cloud.user().clone());
    let mut secrets = PasswordInput::open(from_stdin)?;
    let must_prove = user == *cloud.user() && has_password(cloud).await?;
    let old = if must_prove { Some(Password(secrets.current_password("Password so far: ")?)) } else { None };
    let new = Password(secrets.new_password(&format!("New password for {user}: "))?);
    Ok(cloud.set_password(&user, old, new).await?)
}

/// Whether the logged-in user has a password. Only administrators may set a first password, and only they may ask
/// whether there is one.
async fn has_password(cloud: &Client) -> Result<bool, Failure> {
    if !cloud.who_am_i().await?.rights.admin {
        return Ok(true);
    }
    let you = cloud.users().await?.into_iter().find(|user| user.user == *cloud.user());
    Ok(you.is_none_or(|you| you.has_password))
}

async fn token(cloud: &Client, command: TokenCommand, global: &Global) -> Result<(), Failure> {
    match command {
        TokenCommand::Add { user, name, life, write_profile } => {
            let token = cloud.add_token(&user, &name, life.as_secs()).await?;
            let until = show::json_time(token.until_unix_millis);
            if let Some(file) = write_profile {
                let own = Profile::load(&session::profile_file(global)?)?;
                return Ok(Profile { user, token: token.token, session: None, ..own }.save(&file)?);
            }
            let text: String = token.token.iter().map(|byte| format!("{byte:02x}")).collect();
            if global.json {
                return show::json(&NewTokenView { user: user.to_string(), name, token: text, until });
            }
            show::line(text);
            Ok(())
        }
        TokenCommand::List { user } => show_tokens(cloud.tokens(&user).await?, "name", global),
        TokenCommand::Revoke { user, name } => Ok(cloud.revoke_token(&user, &name).await?),
    }
}

async fn key(cloud: &Client, command: KeyCommand, global: &Global) -> Result<(), Failure> {
    let own = |user: Option<UserName>| user.unwrap_or_else(|| cloud.user().clone());
    match command {
        KeyCommand::Add { user, life } => {
            let user = own(user);
            let key = cloud.add_access_key(&user, life.as_secs()).await?;
            if global.json {
                let until = show::json_time(key.until_unix_millis);
                return show::json(&NewKeyView { user: user.to_string(), id: key.id, secret: key.secret, until });
            }
            // As the environment of most programs takes it.
            show::line(format!("AWS_ACCESS_KEY_ID={}", key.id));
            show::line(format!("AWS_SECRET_ACCESS_KEY={}", key.secret));
            Ok(())
        }
        KeyCommand::List { user } => {
            let mut keys = cloud.tokens(&own(user)).await?;
            keys.retain(|token| is_access_key_id(&token.name));
            show_tokens(keys, "id", global)
        }
        KeyCommand::Remove { key, user } => {
            if !is_access_key_id(&key) {
                let message = format!("`{key}` is not the id of an access key; see `sector user key list`");
                return Err(Failure::new(Reason::Invalid, message));
            }
            Ok(cloud.revoke_token(&own(user), &key).await?)
        }
    }
}

fn show_tokens(tokens: Vec<client::TokenStatus>, name: &str, global: &Global) -> Result<(), Failure> {
    let tokens = tokens.into_iter();
    if global.json {
        return show::json(&tokens.map(TokenView::from).collect::<Vec<_>>());
    }
    let time = |millis: Option<u64>| millis.map_or_else(|| "-".into(), show::time);
    let row = |token: client::TokenStatus| {
        let (made, until) = (Some(token.made_unix_millis), token.until_unix_millis);
        vec![token.name, time(made), time(until), time(token.used_unix_millis)]
    };
    show::table(&[name, "made", "until", "last used"], &tokens.map(row).collect::<Vec<_>>());
    Ok(())
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

#[derive(Serialize)]
struct NewTokenView {
    user: String,
    name: String,
    token: String,
    until: String,
}

#[derive(Serialize)]
struct NewKeyView {
    user: String,
    id: String,
    secret: String,
    until: String,
}
