//! Text for a directory: names in filters and DNs, escaped so that they stay names; and results as words. Pure. A name
//! that could end a filter or a DN would open somebody else's account. So a name is never put there unescaped.

use ldap3::{dn_escape, ldap_escape};

/// The DN of a user by a template with `{user}`.
pub(super) fn fill_dn(template: &str, user: &str) -> String {
    template.replacen("{user}", &dn_escape(user), 1)
}

/// A filter by a template with `{user}` and `{dn}`. It is filled in one pass, so that inserted text is not examined
/// again.
pub(super) fn fill_filter(template: &str, user: &str, dn: &str) -> String {
    let mut filter = String::with_capacity(template.len() + user.len() + dn.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filter.push_str(before);
        rest = if let Some(after) = from.strip_prefix("{user}") {
            filter.push_str(&ldap_escape(user));
            after
        } else if let Some(after) = from.strip_prefix("{dn}") {
            filter.push_str(&ldap_escape(dn));
            after
        } else {
            filter.push('{');
            &from[1..]
        };
    }
    filter + rest
}

/// The meaning of a result, for those that settings can cause.
pub(super) fn result(code: u32) -> &'static str {
    match code {
        1 => "operations error",
        2 => "protocol error",
        3 => "time limit exceeded",
        4 => "size limit exceeded",
        8 => "it wants stronger authentication",
        13 => "it wants TLS",
        32 => "no such object: look at the DNs in the settings",
        34 => "invalid DN: look at the DNs in the settings",
        48 => "inappropriate authentication",
        49 => "the service account's DN or password is wrong",
        50 => "the account may not do this",
        53 => "it is unwilling",
        _ => "see RFC 4511, appendix A",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_its_place_in_a_filter() {
        for (name, written) in [
            ("alice", "(uid=alice)"),
            ("*", "(uid=\\2a)"),
            (")(uid=*", "(uid=\\29\\28uid=\\2a)"),
            ("a\0b", "(uid=a\\00b)"),
            ("a\\2a", "(uid=a\\5c2a)"),
            ("{dn}", "(uid={dn})"),
        ] {
            assert_eq!(fill_filter("(uid={user})", name, "cn=x"), written);
        }
        let dn = "cn=a*b,ou=(x)";
        assert_eq!(
            fill_filter("(&(a={b})(member={dn})(x={user}))", "{dn}", dn),
            "(&(a={b})(member=cn=a\\2ab,ou=\\28x\\29)(x={dn}))"
        );
    }

    #[test]
    fn no_name_leaves_its_place_in_a_dn() {
        for (name, written) in [
            ("alice", "uid=alice,ou=people"),
            ("x,ou=admins", "uid=x\\2cou\\3dadmins,ou=people"),
            ("a+cn=b", "uid=a\\2bcn\\3db,ou=people"),
            ("a\0", "uid=a\\00,ou=people"),
            (" #a ", "uid=\\20#a\\20,ou=people"),
            ("\"<>;\\", "uid=\\22\\3c\\3e\\3b\\5c,ou=people"),
        ] {
            assert_eq!(fill_dn("uid={user},ou=people", name), written);
        }
    }
}
