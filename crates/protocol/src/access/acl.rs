//! Access rights to a file, or a folder and all below it (Sector/Sphere paper, 2.3: "the master will check whether the
//! user has access privileges"). It serves every path that names an entry, and the sidecar, so that rights outlive the
//! masters. It never decides what a right means for a request (the master does), and never knows the name space.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{UserName, access::user_rights::UserRights, limits};

/// An access list. It never has two entries for one principal, and never an entry without a right. It is printed and
/// parsed as `user:alice:rw,group:astro:r,everyone:r`. An empty list, printed as `none`, leaves an entry to its owner
/// and to administrators.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<AclEntry>", into = "Vec<AclEntry>")]
pub struct Acl(Vec<AclEntry>);

/// What one principal may do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AclEntry {
    /// Who.
    pub principal: Principal,
    /// What.
    pub rights: Rights,
}

/// Whom an entry is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Principal {
    /// A user, whether or not the security server currently knows one of that name.
    User(UserName),
    /// All users of a group, as the security server reported it when they logged in.
    Group(String),
    /// Everyone who is logged in.
    Everyone,
}

/// A set of rights: any of read, write, run and administer.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Rights(u8);

impl Acl {
    /// A list of these entries, in the fixed order of all lists.
    ///
    /// # Errors
    /// A sentence where an entry has no right, two are about the same principal, or a group's name is invalid. Also
    /// where there are more than [`ACL_ENTRIES_MAX`](limits::ACL_ENTRIES_MAX).
    pub fn new(mut entries: Vec<AclEntry>) -> Result<Self, String> {
        if entries.len() > limits::ACL_ENTRIES_MAX {
            let most = limits::ACL_ENTRIES_MAX;
            return Err(format!("{} entries are too many; name at most {most}, or make a group", entries.len()));
        }
        for AclEntry { principal: who, rights } in &entries {
            if rights.is_empty() {
                return Err(format!("`{who}` is given no right; leave it out"));
            }
            if let Principal::Group(group) = who {
                check_group(group)?;
            }
        }
        entries.sort();
        match entries.windows(2).find(|pair| pair[0].principal == pair[1].principal) {
            Some(pair) => Err(format!("`{}` stands there twice; give all its rights in one entry", pair[0].principal)),
            None => Ok(Self(entries)),
        }
    }

    /// Everyone who is logged in may read it and run jobs on it, and only owners may change it.
    pub fn everyone_reads() -> Self {
        Self(vec![AclEntry { principal: Principal::Everyone, rights: Rights::READ.and(Rights::RUN) }])
    }

    /// The entries, users before groups before everyone.
    pub fn entries(&self) -> &[AclEntry] {
        &self.0
    }

    /// Whether only owner and administrators may do anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a user may do: the union of the entries for the user, for the user's groups and for everyone.
    pub fn rights_of(&self, user: &UserRights) -> Rights {
        let speaks_of = |who: &Principal| match who {
            Principal::User(name) => *name == user.user,
            Principal::Group(group) => user.groups.contains(group),
            Principal::Everyone => true,
        };
        let said = self.0.iter().filter(|entry| speaks_of(&entry.principal));
        said.fold(Rights::default(), |rights, entry| rights.and(entry.rights))
    }

    /// A list that also grants what these entries do. Nobody loses a right.
    ///
    /// # Errors
    /// A sentence where that are too many entries, as in [`new`](Self::new).
    pub fn with(&self, more: &Self) -> Result<Self, String> {
        let mut entries = self.0.clone();
        for added in &more.0 {
            match entries.iter_mut().find(|entry| entry.principal == added.principal) {
                Some(entry) => entry.rights = entry.rights.and(added.rights),
                None => entries.push(added.clone()),
            }
        }
        Self::new(entries)
    }

    /// The same list without the entries for these principals.
    #[must_use]
    pub fn without(&self, whom: &[Principal]) -> Self {
        Self(self.0.iter().filter(|entry| !whom.contains(&entry.principal)).cloned().collect())
    }

    /// The rights that both lists grant. The order of the two does not matter.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let of = |who: &Principal| {
            other.0.iter().find(|entry| entry.principal == *who).map_or(Rights::default(), |it| it.rights)
        };
        let both =
            self.0.iter().map(|entry| AclEntry { rights: entry.rights.common(of(&entry.principal)), ..entry.clone() });
        Self(both.filter(|entry| !entry.rights.is_empty()).collect())
    }
}

impl Rights {
    /// `r`: see and read it; list a folder.
    pub const READ: Self = Self(1);
    /// `w`: change, replace, move and remove it; make something in a folder.
    pub const WRITE: Self = Self(2);
    /// `x`: run jobs on it, where it may be read too.
    pub const RUN: Self = Self(4);
    /// `a`: set who may do what, and set its policy.
    pub const ADMINISTER: Self = Self(8);
    /// All of them.
    pub const ALL: Self = Self(15);

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `wanted` are in the set.
    pub fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// The union of the two sets.
    #[must_use]
    pub const fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// The rights that are in both sets.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

fn check_group(group: &str) -> Result<(), String> {
    // Groups are named as users are.
    UserName::new(group).map(drop).map_err(|_| format!("`{}` is not a valid group name", shown(group)))
}

/// A stranger's text in a form that may stand in a sentence.
fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(NOBODY);
        }
        for (place, AclEntry { principal: who, rights }) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{who}:{rights}")?;
        }
        Ok(())
    }
}

impl FromStr for Acl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == NOBODY {
            return Ok(Self::default());
        }
        text.split(',').map(str::parse).collect::<Result<Vec<AclEntry>, _>>().and_then(Self::new)
    }
}

impl FromStr for AclEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (who, rights) = text.rsplit_once(':').ok_or_else(|| {
            format!(
                "`{}` says no rights: write for example `user:alice:rw`, `group:astro:r` or `everyone:r`",
                shown(text)
            )
        })?;
        Ok(Self { principal: who.parse()?, rights: rights.parse()? })
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user:{name}"),
            Self::Group(group) => write!(f, "group:{group}"),
            Self::Everyone => f.write_str(EVERYONE),
        }
    }
}

impl FromStr for Principal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("user", name)) => UserName::new(name).map(Self::User).map_err(|error| error.to_string()),
            Some(("group", group)) => check_group(group).map(|()| Self::Group(group.to_owned())),
            None if text == EVERYONE => Ok(Self::Everyone),
            _ => Err(format!("`{}` is nobody: write `user:NAME`, `group:NAME` or `everyone`", shown(text))),
        }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = LETTERS.iter().filter(|(_, right)| self.has(*right));
        said.map(|(letter, _)| letter).try_for_each(|letter| write!(f, "{letter}"))
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}

impl FromStr for Rights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rights = Self::default();
        for letter in text.chars() {
            let right = LETTERS.iter().find(|(of, _)| *of == letter).map(|(_, right)| *right);
            match right.filter(|right| !rights.has(*right)) {
                Some(right) => rights = rights.and(right),
                None => return Err(wrong_rights(text)),
            }
        }
        if rights.is_empty() { Err(wrong_rights(text)) } else { Ok(rights) }
    }
}

fn wrong_rights(text: &str) -> String {
    format!(
        "`{}` are no rights: write one or more of r (read), w (write), x (run jobs on), a (administer)",
        shown(text)
    )
}

impl TryFrom<Vec<AclEntry>> for Acl {
    type Error = String;

    fn try_from(entries: Vec<AclEntry>) -> Result<Self, String> {
        Self::new(entries)
    }
}

impl From<Acl> for Vec<AclEntry> {
    fn from(acl: Acl) -> Self {
        acl.0
    }
}

impl TryFrom<u8> for Rights {
    type Error = String;

    fn try_from(bits: u8) -> Result<Self, String> {
        if bits & !Self::ALL.0 == 0 { Ok(Self(bits)) } else { Err(format!("{bits:#x} are no rights")) }
    }
}

impl From<Rights> for u8 {
    fn from(rights: Rights) -> Self {
        rights.0
    }
}

const LETTERS: [(char, Rights); 4] =
    [('r', Rights::READ), ('w', Rights::WRITE), ('x', Rights::RUN), ('a', Rights::ADMINISTER)];
const EVERYONE: &str = "everyone";
/// A list without entries, as text.
const NOBODY: &str = "none";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wire::codec;

    fn acl(text: &str) -> Acl {
        text.parse().unwrap()
    }

    fn user(name: &str, groups: &[&str]) -> UserRights {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        UserRights { user: UserName::new(name).unwrap(), groups, admin: false }
    }

    #[test]
    fn rights_are_added_and_nobody_loses_one() {
        let acl = |text: &str| text.parse::<Acl>().unwrap();
        let joined = |old: &str, new: &str| acl(old).with(&acl(new)).unwrap();
        assert_eq!(joined("everyone:rx", "user:bob:rw"), acl("everyone:rx,user:bob:rw"));
        assert_eq!(joined("everyone:rx,user:bob:r", "user:bob:w"), acl("everyone:rx,user:bob:rw"));
        assert_eq!(
            joined("user:ann:rw,user:bob:rw", "user:bob:r,group:astro:rx"),
            acl("user:ann:rw,user:bob:rw,group:astro:rx")
        );
    }

    #[test]
    fn lists_print_and_parse_in_one_order() {
        for text in ["none", "everyone:r", "user:alice:rw,group:astro:r,everyone:x", "user:a:rwxa,user:b:a"] {
            assert_eq!(acl(text).to_string(), text);
        }
        assert_eq!(acl("everyone:r,group:g:wr,user:a:ax").to_string(), "user:a:xa,group:g:rw,everyone:r");
    }

    #[test]
    fn what_is_no_list_is_refused_in_a_sentence_that_shows_how() {
        let wrong = [
            ("", "for example"),
            ("alice", "for example"),
            ("alice:r", "user:NAME"),
            ("user:alice", "user:NAME"),
            ("user:-x:r", "user name"),
            ("group:a b:r", "group name"),
            ("user:alice:", "(read)"),
            ("user:alice:rr", "(read)"),
            ("user:alice:q", "(read)"),
            ("everyone:r,everyone:w", "twice"),
            ("user:alice:r,", "for example"),
            ("everyone:alice:r", "nobody"),
        ];
        for (text, says) in wrong {
            let message = text.parse::<Acl>().unwrap_err();
            assert!(message.contains(says), "{text}: {message}");
        }
        let many: Vec<_> = (0..=limits::ACL_ENTRIES_MAX).map(|number| format!("user:u{number}:r")).collect();
        assert!(many.join(",").parse::<Acl>().unwrap_err().contains("too many"));
    }

    #[test]
    fn rights_of_user_groups_and_everyone_add_up() {
        let list = acl("user:alice:w,group:astro:x,group:geo:a,everyone:r");
        let of = |user: UserRights| list.rights_of(&user).to_string();
        assert_eq!(of(user("alice", &["astro"])), "rwx");
        assert_eq!(of(user("alice", &[])), "rw");
        assert_eq!(of(user("bob", &["geo", "astro"])), "rxa");
        // A group is not a user of that name.
        assert_eq!(of(user("astro", &["alice"])), "r");
        assert!(acl("none").rights_of(&user("alice", &[])).is_empty());
    }

    #[test]
    fn a_list_that_breaks_its_own_rules_is_not_read_from_bytes() {
        let entry = |who: Principal, rights: u8| (who, rights);
        let good = vec![entry(Principal::Everyone, 1)];
        assert_eq!(codec::decode::<Acl>(&codec::encode(&good)).unwrap(), acl("everyone:r"));
        let bad = [
            vec![entry(Principal::Everyone, 0)],
            vec![entry(Principal::Everyone, 16)],
            vec![entry(Principal::Everyone, 1), entry(Principal::Everyone, 2)],
            vec![entry(Principal::Group("a/b".into()), 1)],
        ];
        for entries in bad {
            assert!(codec::decode::<Acl>(&codec::encode(&entries)).is_err(), "{entries:?}");
        }
    }

    #[test]
    fn what_two_lists_have_in_common_is_what_both_grant() {
        let (a, b) = (acl("user:alice:rw,group:g:r,everyone:r"), acl("user:alice:wx,everyone:rx"));
        assert_eq!(a.common(&b).to_string(), "user:alice:w,everyone:r");
        assert_eq!(a.common(&b), b.common(&a));
        assert!(a.common(&acl("none")).is_empty());
        assert_eq!(a.without(&[Principal::Everyone, "group:g".parse().unwrap()]).to_string(), "user:alice:rw");
    }
}
