//! `security init` and `security ticket master`: run at the security server itself, by a user who can read its
//! folder. They never talk to a master.

use std::{
    net::SocketAddr,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use client::{
    Profile,
    admission::{at_security_server, new_ticket},
};
use daemon::settings::{Checked, SecuritySettings};
use net::identity::Credentials;
use protocol::{JoinTicket, MachineKind, Reason};
use security::{create_cloud, machines::TicketRow, open_cloud};
use store::write_file_atomically;
use terminal::{failure::Failure, show};

use super::node_admission::TicketView;
use crate::{
    arguments::{Global, SecurityInit, SecurityTicket},
    cloud::security_failure,
};

/// `sector security init`.
pub(crate) fn init(arguments: &SecurityInit, global: &Global) -> Result<(), Failure> {
    let SecurityInit { folder, name, listen, master, admin, certificate_life } = arguments;
    let folder = std::path::absolute(folder).map_err(|error| Failure::local("use the folder", folder, &error))?;
    let settings_file = folder.join(SETTINGS_FILE);
    if settings_file.exists() {
        let message = format!("there is a cloud in `{}` already; start it with {}", folder.display(), run(&folder));
        return Err(Failure::new(Reason::Exists, message));
    }
    let usual = SecuritySettings::default();
    let certificate_life_seconds = certificate_life.map_or(usual.certificate_life_seconds, |life| life.as_secs());
    let settings = SecuritySettings { listen: *listen, certificate_life_seconds, ..usual };
    let settings = Checked::of(settings, &folder)?;
    let mut cloud = create_cloud(&folder, name).map_err(security_failure)?;
    let token = match cloud.ensure_admin(admin).map_err(security_failure)? {
        Some(token) => token,
        // An earlier run was cut off before its token reached anybody.
        None => cloud.add_token(admin).map_err(security_failure)?,
    };
    let address = master.clone().unwrap_or_else(|| SocketAddr::new(listen.ip(), MASTER_PORT).into());
    let authority = cloud.authority_pem().to_owned();
    // The file is meant to be carried to where the administrator works, so nothing in it depends on this machine.
    let profile = Profile::of(address, admin.clone(), token, authority);
    let profile_file = folder.join("profile.toml");
    write(&profile_file, &profile.to_text())?;
    // Last: if this file exists, everything else does.
    write(&settings_file, &settings.to_toml())?;
    if global.json {
        return show::json(&serde_json::json!({
            "folder": folder, "settings": settings_file, "profile": profile_file, "admin": admin.as_str(),
        }));
    }
    show::line(format!("the cloud is made; its administrator's profile is {}", profile_file.display()));
    show::line(format!("start its security server:  {}", run(&folder)));
    show::line(format!("let a master in:            sector security ticket master --folder {}", folder.display()));
    Ok(())
}

/// `sector security ticket master`.
pub(crate) async fn ticket(ticket: SecurityTicket, global: &Global) -> Result<(), Failure> {
    let SecurityTicket::Master { folder, name, life, address } = ticket;
    let settings_file = folder.join(SETTINGS_FILE);
    if !settings_file.exists() {
        let message = format!(
            "there is no security server in `{}`; say with --folder where `sector security init` has made one",
            folder.display()
        );
        return Err(Failure::new(Reason::NotFound, message));
    }
    let settings = Checked::<SecuritySettings>::read(&settings_file)?;
    let texts = settings.credential_files().read()?;
    let address = address.unwrap_or_else(|| settings.listen.into());
    if address.is_unreachable() {
        return Err(Failure::usage("say with --address where the master reaches the security server"));
    }
    let (ticket, request) = new_ticket(MachineKind::Master, address, &texts.authority_pem, name.clone(), life)?;
    match open_cloud(&settings.folder) {
        // No security server runs on it.
        Ok(mut cloud) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let until_unix_millis = u64::try_from((now + life).as_millis()).unwrap_or(u64::MAX);
            let row = TicketRow { kind: MachineKind::Master, name, until_unix_millis, used_by: None };
            cloud.add_ticket(&request.digest, &row).map_err(security_failure)?;
        }
        Err(error) if error.is_served() => {
            let own = Credentials { certificate_pem: texts.certificate_pem, key_pem: texts.key_pem };
            let mut here = settings.listen;
            if here.ip().is_unspecified() {
                here.set_ip(if here.is_ipv4() { [127, 0, 0, 1].into() } else { [0, 0, 0, 0, 0, 0, 0, 1].into() });
            }
            at_security_server(here.into(), &texts.authority_pem, &own, request.into()).await?;
        }
        Err(error) => return Err(security_failure(error)),
    }
    print(&ticket, life.as_secs(), global)
}

fn print(ticket: &JoinTicket, life_seconds: u64, global: &Global) -> Result<(), Failure> {
    if global.json {
        return show::json(&TicketView { ticket: ticket.to_string(), address: ticket.address.clone(), life_seconds });
    }
    show::line(ticket.to_string());
    Ok(())
}

fn run(folder: &Path) -> String {
    format!("sector security --config {}", folder.join(SETTINGS_FILE).display())
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    write_file_atomically(file, text.as_bytes(), 0o600).map_err(|error| Failure::local("write", file, &error))
}

/// The settings in the security server's folder.
const SETTINGS_FILE: &str = "security.toml";
/// Where a master listens unless it is told otherwise.
const MASTER_PORT: u16 = 7400;
