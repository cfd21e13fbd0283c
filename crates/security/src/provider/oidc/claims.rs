//! The user whom an id token names, by the settings. Pure. A mail address that the provider has not verified is never
//! accepted as a name.

use daemon::settings::{OidcSettings, UserClaim};
use serde_json::{Map, Value};

use super::token::Claims;
use crate::provider::{GROUPS_MAX, ProviderAnswer, ProviderFailure, ProviderUser};

/// The user of a token that was checked.
pub(super) fn user(settings: &OidcSettings, claims: Claims) -> ProviderAnswer {
    let text = |name: &str| claims.others.get(name).and_then(Value::as_str);
    let missing = |name: &str| {
        let why = format!("its token has no `{name}`; ask for it in `scopes`, or register the cloud for it there");
        ProviderAnswer::Failed(ProviderFailure::Misconfigured(why))
    };
    let name = match settings.user_claim {
        UserClaim::Sub => claims.subject.as_str(),
        UserClaim::PreferredUsername => match text("preferred_username") {
            Some(name) => name,
            None => return missing("preferred_username"),
        },
        UserClaim::Email => {
            let Some(address) = text("email") else { return missing("email") };
            if claims.others.get("email_verified") != Some(&Value::Bool(true)) {
                return ProviderAnswer::Refused("has not verified your mail address; have it verified there".into());
            }
            let wanted = settings.email_domain.as_deref().unwrap_or_default();
            match address.rsplit_once('@') {
                Some((name, domain)) if domain.eq_ignore_ascii_case(wanted) && !name.contains('@') => name,
                _ => return ProviderAnswer::Refused(format!("knows you by an address that is not of `{wanted}`")),
            }
        }
    };
    let groups = groups(&claims.others, &settings.groups_claim);
    ProviderAnswer::User(ProviderUser { name: name.to_owned(), subject: Some(claims.subject.clone()), groups })
}

/// A list of texts, or one text. Without the claim there are no groups.
fn groups(claims: &Map<String, Value>, name: &str) -> Vec<String> {
    match claims.get(name) {
        Some(Value::Array(groups)) => {
            groups.iter().filter_map(Value::as_str).take(GROUPS_MAX).map(ToOwned::to_owned).collect()
        }
        Some(Value::String(group)) => vec![group.clone()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn user_of(claim: UserClaim, others: &Value) -> ProviderAnswer {
        let email_domain = (claim == UserClaim::Email).then(|| "example.org".to_owned());
        let settings = OidcSettings { user_claim: claim, email_domain, ..OidcSettings::default() };
        user(&settings, Claims { subject: "7".into(), others: others.as_object().unwrap().clone() })
    }

    fn name(answer: ProviderAnswer) -> String {
        match answer {
            ProviderAnswer::User(user) => {
                assert_eq!(user.subject.as_deref(), Some("7"));
                user.name
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_user_is_called_as_the_settings_say() {
        let others = json!({"preferred_username": "alice", "email": "al@Example.org", "email_verified": true});
        assert_eq!(name(user_of(UserClaim::PreferredUsername, &others)), "alice");
        assert_eq!(name(user_of(UserClaim::Email, &others)), "al");
        assert_eq!(name(user_of(UserClaim::Sub, &others)), "7");
        assert!(matches!(user_of(UserClaim::PreferredUsername, &json!({})), ProviderAnswer::Failed(_)));
        assert!(matches!(user_of(UserClaim::Email, &json!({})), ProviderAnswer::Failed(_)));
    }

    #[test]
    fn an_address_that_is_not_verified_or_of_another_domain_is_nobodys() {
        for (address, verified) in [
            ("al@example.org", json!(false)),
            ("al@example.org", json!("true")),
            ("al@example.org", json!(null)),
            ("al@evil.org", json!(true)),
            ("al@evil.org@example.org", json!(true)),
            ("al", json!(true)),
        ] {
            let others = json!({"email": address, "email_verified": verified});
            assert!(matches!(user_of(UserClaim::Email, &others), ProviderAnswer::Refused(_)), "{others}");
        }
    }

    #[test]
    fn groups_are_a_list_or_one() {
        let list = json!({"groups": ["a", 7, "b"]});
        assert_eq!(groups(list.as_object().unwrap(), "groups"), ["a", "b"]);
        assert_eq!(groups(json!({"groups": "a"}).as_object().unwrap(), "groups"), ["a"]);
        assert!(groups(list.as_object().unwrap(), "roles").is_empty());
    }
}
