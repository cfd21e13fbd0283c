//! `sector up` and `down`: a whole cloud on this machine, in one process or one per role. The roles are those of a
//! real cluster and read the same settings; only the process that starts them differs. It never does a role's work
//! itself.

pub(crate) mod embedded;
mod known_cloud;
mod layout;
mod page;
mod parent;
pub(crate) mod processes;
pub(crate) mod role;
mod role_settings;
mod running_cloud;

use std::{
    ffi::OsString,
    io::{self, IsTerminal},
    path::Path,
};

use client::{Client, NodeState, Profile};
use daemon::{ready, shutdown::Signals};
use protocol::Reason;
use terminal::{background, failure::Failure, show};

pub(crate) use self::layout::{CloudShape, CloudSpec, Layout, RolePlacement, security_failure, write_private};
pub(crate) use self::running_cloud::RunningCloud;
use self::{known_cloud::AskedCloud, page::Page, parent::Parent};
use crate::arguments::{Global, Up};

/// `sector up`.
pub(crate) async fn up(up: Up, global: &Global) -> Result<(), Failure> {
    let home = Profile::home()?;
    // A placed cloud belongs to the program that placed it, and is not the one of this home.
    let is_of_home = up.placement.is_none();
    if is_of_home && let Some(running) = RunningCloud::load(&home)?.filter(|running| running.process.is_alive()) {
        return Err(Failure::new(
            Reason::Exists,
            format!(
                "a cloud runs already at {} (process {}); stop it with `sector down`",
                running.address, running.process.pid
            ),
        ));
    }
    if up.detach {
        return detach(&up, global);
    }
    let data = up.data.clone().unwrap_or_else(|| home.join("data"));
    let data = std::path::absolute(&data).map_err(|error| Failure::local("use the folder", &data, &error))?;
    let shape = match &up.placement {
        Some(file) => CloudShape::Given(CloudSpec::read(file)?),
        None => CloudShape::Asked(AskedCloud {
            nodes: up.nodes,
            sites: up.sites,
            port: up.port,
            disks_per_node: up.disks_per_node,
            insecure_data: up.insecure_data,
        }),
    };
    // Before anything starts, so that no signal is lost.
    let mut signals = Signals::listen().map_err(|error| Failure::failed(error.to_string()))?;
    let mut parent = if up.until_stdin_ends { Parent::watch() } else { Parent::none() };
    let layout = Layout::prepare(data, shape)?;
    if let Some(note) = layout.note.as_ref().filter(|_| !global.quiet) {
        terminal::say!("sector: {note}");
    }
    let mut cloud = if up.processes {
        Started::Processes(Box::new(processes::Processes::start(&layout).await?))
    } else {
        Started::Embedded(embedded::Embedded::start(&layout).await?)
    };
    let note = is_of_home.then_some(home.as_path());
    let asked = Asked { home: note, web_port: up.web_port, is_free_port: up.port == Some(0) };
    let result = serve(&mut cloud, &layout, global, asked, &mut signals, &mut parent).await;
    cloud.stop().await;
    if let Some(home) = note {
        RunningCloud::forget(home);
    }
    result
}

/// `sector down`.
pub(crate) async fn down(global: &Global) -> Result<(), Failure> {
    let home = Profile::home()?;
    let Some(running) = RunningCloud::load(&home)?.filter(|running| running.process.is_alive()) else {
        return Err(Failure::new(Reason::NotFound, "no cloud that `sector up` started runs here"));
    };
    refuse_other(&running, global)?;
    running.process.stop().await?;
    if !global.quiet && !global.json {
        show::line(format!("stopped; `sector up --data {}` has what it had", running.data.display()));
    }
    Ok(())
}

/// Refuses to stop a cloud when commands go to another one.
fn refuse_other(running: &RunningCloud, global: &Global) -> Result<(), Failure> {
    let file = match &global.profile {
        Some(chosen) => Profile::chosen_file(chosen)?,
        None => Profile::default_file()?,
    };
    // Without a profile there is only one cloud that can be meant. One machine has many names, and ports are its own.
    let Ok(profile) = Profile::load(&file) else { return Ok(()) };
    if profile.address.port() == running.address.port() {
        return Ok(());
    }
    let message = format!(
        "the profile in use is of the cloud at {}, and the one that `sector up` started here is at {}; \
         `sector --profile default down` stops that one",
        profile.address, running.address
    );
    Err(Failure::usage(message))
}

/// Waits until every node has reported its inventory.
pub(crate) async fn wait_for_nodes(cloud: &Client, nodes: u32) -> Result<(), Failure> {
    let deadline = tokio::time::Instant::now() + NODES_DEADLINE;
    loop {
        let up = cloud.nodes().await?.iter().filter(|node| node.state == NodeState::Up).count();
        if up >= nodes as usize {
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            return Err(Failure::new(Reason::Unavailable, format!("only {up} of {nodes} nodes came up; see the log")));
        }
        tokio::time::sleep(NODES_PERIOD).await;
    }
}

/// A started cloud.
enum Started {
    Embedded(embedded::Embedded),
    Processes(Box<processes::Processes>),
}

impl Started {
    fn profile(&self, layout: &Layout) -> Result<Profile, Failure> {
        match self {
            Self::Embedded(cloud) => layout.profile(cloud.address()),
            Self::Processes(cloud) => layout.profile(cloud.address()),
        }
    }

    /// Reports when a role ends by itself, and returns when none is left.
    async fn watch(&mut self) -> Failure {
        match self {
            // Its roles report their own end, and a crash of one ends the process.
            Self::Embedded(_) => std::future::pending().await,
            Self::Processes(cloud) => cloud.watch().await,
        }
    }

    async fn stop(self) {
        match self {
            Self::Embedded(cloud) => cloud.stop().await,
            Self::Processes(cloud) => cloud.stop().await,
        }
    }
}

/// What `serve` must know of the command.
struct Asked<'a> {
    /// Where a note says that the cloud runs, if it is that of a home.
    home: Option<&'a Path>,
    web_port: Option<u16>,
    /// Whether the master takes any free port, and so the page too.
    is_free_port: bool,
}

/// Runs from the start until asked to stop.
async fn serve(
    cloud: &mut Started,
    layout: &Layout,
    global: &Global,
    Asked { home, web_port, is_free_port }: Asked<'_>,
    signals: &mut Signals,
    parent: &mut Parent,
) -> Result<(), Failure> {
    let profile = cloud.profile(layout)?;
    let client = Client::connect(&profile).await?;
    tokio::select! {
        up = wait_for_nodes(&client, layout.spec.nodes.len() as u32) => up?,
        _ = signals.next() => return Ok(()),
        () = parent.exited() => return Ok(()),
        all_ended = cloud.watch() => return Err(all_ended),
    }
    client.logout().await;
    let file = match &global.profile {
        Some(chosen) => Profile::chosen_file(chosen)?,
        None => Profile::home()?.join("profile.toml"),
    };
    write_private(&file, profile.to_text().as_bytes())?;
    if !global.quiet && home.is_some() && file != Profile::default_file()? {
        terminal::say!("sector: commands use another profile than this one; see `sector profile list`");
    }
    // The cloud is well without its page.
    let page = match home {
        Some(_) => Page::start(layout, &profile, web_port, is_free_port).await.map_err(|failure| {
            terminal::say!("sector: the web page is not served: {failure}");
        }),
        None => Err(()),
    };
    if let Some(home) = home {
        let url = page.as_ref().ok().map(|page| page.url().to_owned());
        RunningCloud::here(profile.address.clone(), &layout.folder, url).save(home)?;
    }
    show::mark_output();
    ready::announce(format_args!("sector://{}", profile.address))
        .map_err(|error| Failure::failed(error.to_string()))?;
    if !global.quiet && home.is_some() {
        terminal::say!(
            "profile {}, data {}; stop with Ctrl-C or `sector down`",
            file.display(),
            layout.folder.display()
        );
        // Only a person sees the link: whoever may read a log would be the administrator.
        match &page {
            Ok(page) if io::stderr().is_terminal() => {
                terminal::say!("web page {}   (once, within 15 minutes; then `sector web`)", page.login_link());
            }
            Ok(page) => terminal::say!("web page {}   (`sector web` prints a link that logs you in)", page.url()),
            Err(()) => {}
        }
    }
    let result = tokio::select! {
        _ = signals.next() => Ok(()),
        () = parent.exited() => Ok(()),
        all_ended = cloud.watch() => Err(all_ended),
    };
    if let Ok(page) = page {
        page.stop().await;
    }
    result
}

/// Starts the same command in the background and waits for its ready line.
fn detach(up: &Up, global: &Global) -> Result<(), Failure> {
    let mut words: Vec<OsString> = vec!["up".into()];
    let numbers = [
        ("--nodes", up.nodes),
        ("--sites", up.sites),
        ("--port", up.port.map(u32::from)),
        ("--disks-per-node", up.disks_per_node),
        ("--web-port", up.web_port.map(u32::from)),
    ];
    for (name, number) in numbers {
        words.extend(number.into_iter().flat_map(|number| [name.into(), number.to_string().into()]));
    }
    words.extend(up.processes.then(|| "--processes".into()));
    words.extend(up.insecure_data.then(|| "--insecure-data".into()));
    if let Some(data) = &up.data {
        words.extend(["--data".into(), data.into()]);
    }
    if let Some(profile) = &global.profile {
        words.extend(["--profile".into(), profile.into()]);
    }
    let home = Profile::home()?;
    background::start(&words, "the cloud", &home.join("sector.log"))?;
    if let Some(url) = RunningCloud::load(&home)?.and_then(|running| running.page).filter(|_| !global.quiet) {
        terminal::say!("web page {url}   (`sector web` prints a link that logs you in)");
    }
    Ok(())
}

/// How long nodes may take to report their inventories.
const NODES_DEADLINE: std::time::Duration = std::time::Duration::from_secs(120);
/// Time between two checks on them.
const NODES_PERIOD: std::time::Duration = std::time::Duration::from_millis(20);
