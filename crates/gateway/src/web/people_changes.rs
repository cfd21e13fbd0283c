//! Requests that change users, groups, tokens, quotas and rights. The cloud decides who may; each error names the field
//! of the request that it is about, where it is about one. A new token is shown once, in the answer to its request. They
//! never keep a secret.

use axum::{extract::Path, response::IntoResponse};
use client::{
    Acl, AddressRange, NewUser, Password, Principal, Reason, Refusal, UserChange, UserName,
    names::known_names::unknown_message,
    views::{AclView, rfc3339},
};
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::{
    answer::{Answer, ApiError, document, done},
    ask::{Asked, Document, cloud_path},
    caller::Caller,
    file_requests::PathQuery,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddedUser {
    user: String,
    password: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    admin: bool,
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    service: bool,
}

pub(crate) async fn add_user(caller: Caller, Document(new): Document<AddedUser>) -> Answer {
    caller.session()?;
    let user = user_name(&new.user)?;
    let addresses = ranges(&new.addresses)?;
    if new.service && new.password.is_some() {
        return Err(ApiError::invalid("a program has tokens, but never a password").in_field("password"));
    }
    if !new.service && new.password.as_ref().is_none_or(String::is_empty) {
        return Err(ApiError::invalid("give the person a first password").in_field("password"));
    }
    let AddedUser { groups, admin, service, .. } = new;
    let password = new.password.map(Password);
    caller.client.add_user(NewUser { user, password, groups, admin, addresses, service }).await?;
    created()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedUser {
    enabled: Option<bool>,
    admin: Option<bool>,
    addresses: Option<Vec<String>>,
}

/// One change after the other, in this order.
pub(crate) async fn change_user(
    caller: Caller,
    Path(user): Path<String>,
    Document(asked): Document<ChangedUser>,
) -> Answer {
    caller.session()?;
    let user = user_name(&user)?;
    let addresses = asked.addresses.as_deref().map(ranges).transpose()?.map(UserChange::Addresses);
    let changes: Vec<_> = [addresses, asked.admin.map(UserChange::Admin), asked.enabled.map(UserChange::Enabled)]
        .into_iter()
        .flatten()
        .collect();
    if changes.is_empty() {
        return Err(ApiError::invalid("say what to change: enabled, admin or addresses"));
    }
    for change in changes {
        caller.client.change_user(&user, change).await?;
    }
    done()
}

pub(crate) async fn remove_user(caller: Caller, Path(user): Path<String>) -> Answer {
    caller.session()?;
    caller.client.remove_user(&user_name(&user)?).await?;
    done()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPassword {
    old: Option<String>,
    new: String,
}

pub(crate) async fn set_password(
    caller: Caller,
    Path(user): Path<String>,
    Document(given): Document<NewPassword>,
) -> Answer {
    caller.session()?;
    let user = user_name(&user)?;
    caller.client.set_password(&user, given.old.map(Password), Password(given.new)).await?;
    done()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewGroup {
    group: String,
}

pub(crate) async fn add_group(caller: Caller, Document(new): Document<NewGroup>) -> Answer {
    caller.session()?;
    caller.client.add_group(&new.group).await.map_err(|error| ApiError::from(error).in_field("group"))?;
    created()
}

pub(crate) async fn remove_group(caller: Caller, Path(group): Path<String>) -> Answer {
    caller.session()?;
    caller.client.remove_group(&group).await?;
    done()
}

pub(crate) async fn join_group(caller: Caller, Path((group, user)): Path<(String, String)>) -> Answer {
    caller.session()?;
    caller.client.set_member(&group, &user_name(&user)?, true).await?;
    done()
}

pub(crate) async fn leave_group(caller: Caller, Path((group, user)): Path<(String, String)>) -> Answer {
    caller.session()?;
    caller.client.set_member(&group, &user_name(&user)?, false).await?;
    done()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    user: String,
    name: String,
    #[serde(default = "ninety_days")]
    life_seconds: u64,
}

pub(crate) async fn add_token(caller: Caller, Document(new): Document<NewToken>) -> Answer {
    caller.session()?;
    let user = user_name(&new.user)?;
    let made = caller.client.add_token(&user, &new.name, new.life_seconds).await?;
    let token = data_encoding::HEXLOWER.encode(&made.token);
    let view = json!({"user": new.user, "name": new.name, "token": token, "until": rfc3339(made.until_unix_millis)});
    Ok((StatusCode::CREATED, document(&view)?).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenQuery {
    user: String,
    name: String,
}

pub(crate) async fn revoke_token(caller: Caller, Asked(query): Asked<TokenQuery>) -> Answer {
    caller.session()?;
    caller.client.revoke_token(&user_name(&query.user)?, &query.name).await?;
    done()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewQuota {
    user: String,
    bytes: Option<u64>,
    files: Option<u64>,
    #[serde(default)]
    unknown: bool,
}

/// Both limits; one that is not given is none.
pub(crate) async fn set_quota(caller: Caller, Document(quota): Document<NewQuota>) -> Answer {
    caller.session()?;
    let user = user_name(&quota.user)?;
    // A limit may be taken from one who is gone.
    if !quota.unknown && (quota.bytes, quota.files) != (None, None) {
        let unknown = caller.client.unknown_user(std::slice::from_ref(&user)).await?;
        refuse_unknown(unknown.map(Principal::User)).map_err(|error| error.in_field("user"))?;
    }
    caller.client.set_quota(&user, quota.bytes, quota.files).await?;
    done()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAcl {
    path: String,
    acl: String,
    #[serde(default)]
    unknown: bool,
}

pub(crate) async fn set_acl(caller: Caller, Document(new): Document<NewAcl>) -> Answer {
    caller.session()?;
    let path = cloud_path(&new.path)?;
    let acl: Acl = new.acl.parse().map_err(|why: String| ApiError::invalid(why).in_field("acl"))?;
    if !new.unknown {
        refuse_unknown(caller.client.unknown_principal(&acl).await?).map_err(|error| error.in_field("acl"))?;
    }
    let status = caller.client.set_acl(&path, acl).await.map_err(|error| ApiError::from(error).about(&path))?;
    document(&AclView::from(&status))
}

/// The lists of the folders above apply again.
pub(crate) async fn clear_acl(caller: Caller, Asked(query): Asked<PathQuery>) -> Answer {
    caller.session()?;
    let path = cloud_path(&query.path)?;
    let status = caller.client.clear_acl(&path).await.map_err(|error| ApiError::from(error).about(&path))?;
    document(&AclView::from(&status))
}

fn created() -> Answer {
    Ok(StatusCode::CREATED.into_response())
}

fn user_name(text: &str) -> Result<UserName, ApiError> {
    UserName::new(text).map_err(|error| ApiError::invalid(error.to_string()).in_field("user"))
}

fn ranges(texts: &[String]) -> Result<Vec<AddressRange>, ApiError> {
    let wrong = |error: &dyn std::fmt::Display| ApiError::invalid(error.to_string()).in_field("addresses");
    texts.iter().map(|text| text.parse::<AddressRange>().map_err(|error| wrong(&error))).collect()
}

fn refuse_unknown(unknown: Option<Principal>) -> Result<(), ApiError> {
    match unknown.as_ref().and_then(unknown_message) {
        Some(message) => Err(Refusal::new(Reason::NotFound, message).into()),
        None => Ok(()),
    }
}

fn ninety_days() -> u64 {
    90 * 86_400
}
