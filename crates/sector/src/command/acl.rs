//! `acl`: who may do what. It never decides about rights: the cloud does.

use client::{AclStatus, Client, SectorPath, views::AclView};
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
            cloud.add_to_acl(&SectorPath::parse(&path)?, acl).await?
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
