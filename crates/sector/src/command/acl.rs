//! `acl`: who may do what. It never decides about rights: the cloud does.

use client::{Acl, AclStatus, Client, SectorPath, views::AclView};
use terminal::{failure::Failure, show};

use super::known_names::{check_list, check_user};
use crate::arguments::{AclCommand, Global};

/// `sector acl`.
pub(crate) async fn run(cloud: &Client, command: AclCommand, global: &Global) -> Result<(), Failure> {
    let status = match command {
        AclCommand::Get { path } => return print(&cloud.acl(&SectorPath::parse(&path)?).await?, global),
        AclCommand::Set { path, acl, unknown } => {
            if !unknown {
                check_list(cloud, &acl).await?;
            }
            cloud.set_acl(&SectorPath::parse(&path)?, acl).await?
        }
        AclCommand::Add { path, acl, unknown } => {
            if !unknown {
                check_list(cloud, &acl).await?;
            }
            let path = SectorPath::parse(&path)?;
            let joined = joined(&cloud.acl(&path).await?.effective, &acl).map_err(Failure::usage)?;
            cloud.set_acl(&path, joined).await?
        }
        AclCommand::Remove { path, whom } => cloud.remove_from_acl(&SectorPath::parse(&path)?, whom).await?,
        AclCommand::Clear { path } => cloud.clear_acl(&SectorPath::parse(&path)?).await?,
        AclCommand::Owner { path, user, unknown } => {
            if !unknown {
                check_user(cloud, &user).await?;
            }
            cloud.set_owner(&SectorPath::parse(&path)?, &user).await?
        }
    };
    // Changes print nothing, as in other commands; a program may want to see what is in effect now.
    if global.json { print(&status, global) } else { Ok(()) }
}

/// A list that also grants what these entries do. Nobody loses a right.
fn joined(acl: &Acl, new: &Acl) -> Result<Acl, String> {
    let mut entries = acl.entries().to_vec();
    for more in new.entries() {
        match entries.iter_mut().find(|entry| entry.principal == more.principal) {
            Some(entry) => entry.rights = entry.rights.and(more.rights),
            None => entries.push(more.clone()),
        }
    }
    Acl::new(entries)
}

fn print(status: &AclStatus, global: &Global) -> Result<(), Failure> {
    if global.json {
        return show::json(&AclView::from(status));
    }
    let from = match (&status.own, &status.from) {
        (Some(_), _) => "says itself".to_owned(),
        (None, Some(folder)) => format!("from {folder}"),
        (None, None) => "from the cloud's settings".to_owned(),
    };
    for (name, value) in [
        ("path", status.path.to_string()),
        ("owner", status.owner.to_string()),
        ("rights", format!("{} ({from})", status.effective)),
        ("yours", if status.mine.is_empty() { "none".to_owned() } else { status.mine.to_string() }),
    ] {
        show::line(format!("{name:14} {value}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rights_are_added_and_nobody_loses_one() {
        let acl = |text: &str| text.parse::<Acl>().unwrap();
        let joined = |old: &str, new: &str| joined(&acl(old), &acl(new)).unwrap();
        assert_eq!(joined("everyone:rx", "user:bob:rw"), acl("everyone:rx,user:bob:rw"));
        assert_eq!(joined("everyone:rx,user:bob:r", "user:bob:w"), acl("everyone:rx,user:bob:rw"));
        assert_eq!(
            joined("user:ann:rw,user:bob:rw", "user:bob:r,group:astro:rx"),
            acl("user:ann:rw,user:bob:rw,group:astro:rx")
        );
    }
}
