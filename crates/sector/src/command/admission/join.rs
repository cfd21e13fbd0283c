//! `node join` and `master join`: this machine joins a cloud. They write credentials and settings, from which the
//! role starts. The private key is made here and never leaves this machine.

use std::{
    fs,
    net::{IpAddr, SocketAddr, UdpSocket},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use client::{AdmittedMachine, Decision, Newcomer, TrustAnchor};
use daemon::settings::{Checked, CredentialFiles, MasterSettings, NodeSettings, Settings};
use net::{
    identity::{NewKey, fingerprint},
    transfer::resolve,
};
use protocol::{HostAddress, MachineKind, NodeId, Reason, Status};
use store::{replace_files_atomically, write_file_atomically};
use terminal::{failure::Failure, show};
use tokio::{net::TcpStream, time::timeout};

use crate::arguments::{Global, MasterJoin, NodeJoin};

/// `sector master join`.
pub(crate) async fn master(arguments: MasterJoin, global: &Global) -> Result<(), Failure> {
    let MasterJoin { ticket, folder, listen } = arguments;
    if ticket.kind != MachineKind::Master {
        return Err(Failure::usage("this ticket is for a node; use it with `sector node join`"));
    }
    let place = MachineFolder::prepare(&folder, "master.toml")?;
    let kept = place.existing_settings::<MasterSettings>()?;
    let settings = |id| MasterSettings { id, listen, security: ticket.address.clone(), ..MasterSettings::default() };
    // Before the ticket is used up: errors in the settings show now.
    Checked::of(settings(MasterSettings::default().id), &place.folder)?;
    let name = kept.as_ref().map(|kept| kept.id.clone());
    let admitted = Newcomer::with_ticket(&ticket, place.key()?).use_ticket(&ticket, name).await?;
    let new = kept.is_none().then(|| settings(admitted.name.clone()));
    place.install(&admitted, new, "master", global)
}

/// `sector node join`.
pub(crate) async fn node(arguments: NodeJoin, global: &Global) -> Result<(), Failure> {
    let ticket = arguments.ticket.as_ref();
    if ticket.is_some_and(|ticket| ticket.kind != MachineKind::Node) {
        return Err(Failure::usage("this ticket is for a master; use it with `sector master join`"));
    }
    let Some(master) = ticket.map(|ticket| ticket.address.clone()).or_else(|| arguments.master.clone()) else {
        let message = "give what `sector node ticket` printed, or ask without one: --master HOST:PORT --id ID";
        return Err(Failure::usage(message));
    };
    let place = MachineFolder::prepare(&arguments.folder, "node.toml")?;
    let kept = place.existing_settings::<NodeSettings>()?;
    if let (Some(kept), Some(id)) = (&kept, &arguments.id)
        && kept.id != *id
    {
        let message = format!("`{}` is that of `{}`; leave --id out", place.settings.display(), kept.id);
        return Err(Failure::usage(message));
    }
    let name = kept.as_ref().map(|kept| kept.id.clone()).or_else(|| arguments.id.clone());
    let listen = match arguments.listen {
        Some(listen) => listen,
        None => SocketAddr::new(address_towards(&master).await?, NODE_PORT),
    };
    let settings = |id| NodeSettings {
        id,
        master: master.clone(),
        listen,
        site: arguments.site.clone(),
        rack: arguments.rack.clone(),
        ..NodeSettings::default()
    };
    let any_name = name.clone().map_or_else(|| NodeId::new("node-1"), Ok);
    let any_name = any_name.map_err(|error| Failure::usage(error.to_string()))?;
    // Before the ticket is used up: errors in the settings show now.
    Checked::of(settings(any_name), &place.folder)?;
    let admitted = match ticket {
        Some(ticket) => Newcomer::with_ticket(ticket, place.key()?).use_ticket(ticket, name).await?,
        None => wait_for_approval(master.clone(), &arguments, &place, global).await?,
    };
    let new = kept.is_none().then(|| settings(admitted.name.clone()));
    place.install(&admitted, new, "node", global)
}

/// Asks without a ticket until an administrator has decided.
async fn wait_for_approval(
    master: HostAddress,
    arguments: &NodeJoin,
    place: &MachineFolder,
    global: &Global,
) -> Result<AdmittedMachine, Failure> {
    let trust = match (&arguments.authority, arguments.trust_on_first_use) {
        (Some(file), _) => {
            let text = fs::read_to_string(file).map_err(|error| Failure::local("read", file, &error))?;
            TrustAnchor::Authority(text)
        }
        (None, true) => TrustAnchor::FirstUse,
        (None, false) => {
            let message = "say whom to trust there: --authority FILE, or in so many words --trust-on-first-use";
            return Err(Failure::usage(message));
        }
    };
    let Some(name) = &arguments.id else { return Err(Failure::usage("say with --id how the node shall be called")) };
    let mut newcomer = Newcomer { address: master, trust, key: place.key()? };
    // The last message; a person reads it once, however long it stays true.
    let mut told = String::new();
    loop {
        let message = match newcomer.ask(name).await {
            Ok(Decision::Admitted(admitted)) => return Ok(admitted),
            Ok(Decision::Waiting(key)) => {
                format!("waiting for an administrator: sector node approve {name} --fingerprint {key}")
            }
            // A master that is unavailable for a moment, or has no room for a request, may accept one later.
            Err(error) if !told.is_empty() && error.status() == Status::Unavailable => {
                format!("{error}; it is asked again every {} s", ASK_AGAIN_AFTER.as_secs())
            }
            Err(error) => return Err(error.into()),
        };
        if told != message && !global.quiet {
            terminal::say!("{message}");
        }
        told = message;
        tokio::time::sleep(ASK_AGAIN_AFTER).await;
    }
}

/// The folder of a machine that joins.
struct MachineFolder {
    folder: PathBuf,
    files: CredentialFiles,
    settings: PathBuf,
}

impl MachineFolder {
    /// Makes the folder, private to its owner; a folder that already has a machine in it is refused.
    fn prepare(folder: &Path, settings: &str) -> Result<Self, Failure> {
        let folder = std::path::absolute(folder).map_err(|error| Failure::local("use the folder", folder, &error))?;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&folder).map_err(|error| Failure::local("make the folder", &folder, &error))?;
        let (files, settings) = (CredentialFiles::in_folder(&folder), folder.join(settings));
        if files.certificate.exists() {
            let message = format!(
                "`{}` is there already: this folder has joined a cloud; use another one, or remove this file to join again",
                files.certificate.display()
            );
            return Err(Failure::new(Reason::Exists, message));
        }
        Ok(Self { folder, files, settings })
    }

    /// The settings of a machine that was in a cloud before, and whose certificate was lost or has expired: they stay
    /// as they are.
    fn existing_settings<T: Settings>(&self) -> Result<Option<Checked<T>>, Failure> {
        Ok(if self.settings.exists() { Some(Checked::read(&self.settings)?) } else { None })
    }

    /// The key in this folder. An existing key belongs to an earlier request that was cut off; the machine asks again
    /// as the same.
    fn key(&self) -> Result<NewKey, Failure> {
        let file = &self.files.key;
        let broken = |error: net::NetError| Failure::from(error.refusal());
        match fs::read_to_string(file) {
            Ok(text) => NewKey::from_pem(&text).map_err(broken),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let key = NewKey::generate().map_err(broken)?;
                write_file_atomically(file, key.key_pem().as_bytes(), 0o600)
                    .map_err(|error| Failure::local("write", file, &error))?;
                Ok(key)
            }
            Err(error) => Err(Failure::local("read", file, &error)),
        }
    }

    /// Writes the credentials, and the settings if they are new, and prints how to start the role.
    fn install<T: Settings>(
        &self,
        admitted: &AdmittedMachine,
        settings: Option<T>,
        role: &str,
        global: &Global,
    ) -> Result<(), Failure> {
        let settings = settings.map(|settings| Checked::of(settings, &self.folder)).transpose()?;
        let settings = settings.map(|settings| settings.to_toml());
        let mut files = vec![(self.files.authority.as_path(), admitted.authority_pem.as_bytes(), 0o644)];
        files.extend(settings.as_ref().map(|toml| (self.settings.as_path(), toml.as_bytes(), 0o600)));
        // The certificate last: a folder that has one has joined.
        files.push((&self.files.certificate, admitted.certificate_pem.as_bytes(), 0o644));
        replace_files_atomically(&files).map_err(|error| Failure::local("write", &self.files.certificate, &error))?;
        let command = format!("sector {role} --config {}", self.settings.display());
        if global.json {
            let digest = fingerprint(&admitted.certificate_pem).map_err(|error| Failure::from(error.refusal()))?;
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            return show::json(&serde_json::json!({
                "id": admitted.name.as_str(), "settings": self.settings, "fingerprint": digest, "start": command,
            }));
        }
        show::line(format!("{} has joined; start it with:  {command}", admitted.name));
        Ok(())
    }
}

/// The address of this machine from which it reaches the master. The system is asked for the route. Only where the
/// master's name has several addresses is one tried that answers.
async fn address_towards(master: &HostAddress) -> Result<IpAddr, Failure> {
    let numbers = resolve(master).await.map_err(|error| Failure::from(error.refusal()))?;
    if numbers.len() > 1 {
        for number in &numbers {
            let connected = timeout(CONNECT_MAX, TcpStream::connect(number)).await;
            if let Ok(Ok(address)) = connected.map(|stream| stream.and_then(|stream| stream.local_addr())) {
                return Ok(address.ip());
            }
        }
    }
    let route = |master: SocketAddr| {
        let any: SocketAddr = if master.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
        UdpSocket::bind(any).and_then(|socket| {
            socket.connect(master)?;
            socket.local_addr()
        })
    };
    let unknown =
        |error| Failure::failed(format!("cannot find out how others reach this machine ({error}); say --listen"));
    let first = numbers.first().copied().ok_or(std::io::ErrorKind::NotFound.into());
    first.and_then(route).map(|address| address.ip()).map_err(unknown)
}

/// Pause between two requests of a node that waits.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// How long one of several addresses of a master may take to answer.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Where a node listens unless it is told otherwise.
const NODE_PORT: u16 = 7410;
