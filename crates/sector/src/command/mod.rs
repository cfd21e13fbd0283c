//! One function per command. Each reads its arguments, calls the client, and prints. It never holds logic of storage
//! or of jobs.

mod accounts;
mod acl;
mod admission;
mod audit;
mod backup;
mod check;
mod clouds;
mod complete_paths;
mod completions;
mod curves;
mod doctor;
mod driver;
mod events;
pub(crate) mod files;
mod folders;
mod import;
mod index;
mod inspect;
pub(crate) mod jobs;
mod known_names;
mod lease;
mod links;
mod listing;
mod load;
mod login;
mod logs;
mod marks;
mod metrics;
mod node;
mod nodes;
mod password_input;
mod policy;
mod profile;
mod quota;
mod rebuild;
mod remove;
mod segments;
mod sessions;
mod sync;
mod top;
mod topology;
mod transfer;
mod transfer_limit;
mod trash;
mod udf;
mod versions;
mod waiting;
mod web;
mod work;

use crate::{
    arguments::{
        Arguments, Command, Global, MasterCommand, MasterRole, Node, NodeVerb, SecurityCommand, SecurityRole,
        TopologyVerb,
    },
    cloud, demo,
};
use std::sync::Arc;

use client::Client;
use terminal::{failure::Failure, interrupted, session};

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { global, command } = arguments;
    let global = &global;
    match command {
        Command::Up(up) => cloud::up(up, global).await,
        Command::Down => cloud::down(global).await,
        Command::Demo(demo) => demo::run(demo, global).await,
        Command::Security(SecurityRole { command: Some(SecurityCommand::Init(init)), .. }) => {
            admission::security::init(&init, global)
        }
        Command::Security(SecurityRole { command: Some(SecurityCommand::Ticket(ticket)), .. }) => {
            admission::security::ticket(ticket, global).await
        }
        Command::Security(SecurityRole { config: Some(config), .. }) => cloud::role::security(&config).await,
        Command::Security(_) => Err(Failure::usage("name the settings with `--config`")),
        Command::Master(MasterRole { command: Some(MasterCommand::Join(join)), .. }) => {
            admission::join::master(join, global).await
        }
        Command::Node(Node { verb: Some(NodeVerb::Join(join)), .. }) => tokio::select! {
            joined = admission::join::node(*join, global) => joined,
            signal = interrupted() => Err(signal.failure("interrupted; the same command goes on where it was")),
        },
        Command::Master(MasterRole { command: Some(MasterCommand::Rebuild(role)), .. }) => {
            rebuild::archive_journal(&role, global)
        }
        Command::Master(MasterRole { config: Some(config), .. }) => cloud::role::master(&config).await,
        Command::Master(_) => Err(Failure::usage("name the settings with `--config`")),
        Command::Node(Node { config: Some(config), verb: None }) => cloud::role::node(&config).await,
        Command::Gateway(role) => cloud::role::gateway(&role.config).await,
        Command::Topology(TopologyVerb::Check { file }) => topology::check(&file, global),
        Command::Login(login) => login::login(login, global).await,
        Command::Profile(asked) => profile::run(asked, global),
        Command::Cp(cp) => folders::cp(cp, global).await,
        // By value, it would take up the stack of every command.
        Command::Sync(asked) => Box::pin(sync::sync(asked, global)).await,
        Command::Doctor(asked) => doctor::doctor(&asked, global).await,
        Command::Backup(asked) => backup::backup(asked, global).await,
        Command::Restore(asked) => backup::restore(asked, global).await,
        Command::Inspect(inspect) => inspect::run(inspect, global),
        Command::Completions { shell } => {
            completions::completions(shell);
            Ok(())
        }
        Command::CompletePaths { words } => {
            Box::pin(complete_paths::complete(words)).await;
            Ok(())
        }
        Command::Man { folder } => completions::manual(&folder),
        Command::Audit(asked) => match audit::offline(&asked, global).await {
            Some(done) => done,
            None => with_client(Command::Audit(asked), global).await,
        },
        Command::Spe => Err(Failure::usage("`sector spe` is started by nodes only")),
        Command::Driver => driver::run().await,
        other => {
            if let Command::Top(asked) = &other {
                top::check(asked, global)?;
            }
            with_client(other, global).await
        }
    }
}

/// The commands that log in. The session ends with the command, however it ends, so that nothing it held stays
/// behind.
async fn with_client(command: Command, global: &Global) -> Result<(), Failure> {
    let cloud = session::connect(global).await?;
    let is_run = matches!(command, Command::Run(_));
    // Boxed: the frames of all commands together are large, and would lie on the stack several times.
    let running = Box::pin(run_with(&cloud, command, global));
    let result = if is_run {
        // It stops in order when interrupted: see `terminal::drive`.
        running.await
    } else {
        tokio::select! {
            result = running => result,
            signal = interrupted() => Err(signal.failure(clouds::INTERRUPTED)),
        }
    };
    session::close(&cloud).await;
    result
}

async fn run_with(cloud: &Client, command: Command, global: &Global) -> Result<(), Failure> {
    match command {
        Command::Nodes => nodes::nodes(cloud, global).await,
        Command::Node(Node { verb: Some(verb), .. }) => node::run(cloud, verb, global).await,
        Command::Rebalance(rebalance) => node::rebalance(cloud, rebalance, global).await,
        Command::Topology(verb) => topology::run(cloud, verb, global).await,
        Command::Health => nodes::health(cloud, global).await,
        Command::Metrics(asked) => metrics::run(cloud, &asked, global).await,
        Command::Load(asked) => load::run(cloud, asked, global).await,
        // What it waits for stands on its screen.
        Command::Top(asked) => Box::pin(top::run(&cloud.telling(Arc::new(|_| ())), asked)).await,
        Command::Web(asked) => web::run(cloud, &asked, global).await,
        Command::Mark(command) => marks::run(cloud, command, global).await,
        Command::Links(asked) => links::run(cloud, asked, global).await,
        Command::Events(asked) => events::run(cloud, asked, global).await,
        Command::Work => work::run(cloud, global).await,
        Command::Put(put) => {
            let cloud = waiting::waiting(&transfer_limit::throttled(cloud, &put.transfer_limit)?, &put.wait, global);
            files::put(&cloud, put, global).await
        }
        Command::Get(get) => files::get(&transfer_limit::throttled(cloud, &get.transfer_limit)?, get, global).await,
        Command::Cat(cat) => files::cat(cloud, &cat).await,
        Command::Ls(ls) => listing::ls(cloud, ls, global).await,
        Command::Tree(paths) => listing::tree(cloud, &paths.paths, global).await,
        Command::Find(paths) => listing::find(cloud, &paths.paths, global).await,
        Command::Du(paths) => listing::du(cloud, &paths.paths, global).await,
        Command::Stat(paths) => listing::stat(cloud, &paths.paths, global).await,
        Command::Check(asked) => check::check(cloud, asked, global).await,
        Command::Mkdir(mkdir) => folders::mkdir(cloud, mkdir).await,
        Command::Mv(mv) => folders::mv(cloud, &mv, global).await,
        Command::Rm(rm) => remove::rm(cloud, &rm, global).await,
        Command::Versions(asked) => versions::run(cloud, &asked, global).await,
        Command::Trash(trash) => trash::run(cloud, trash, global).await,
        Command::Lease(lease) => lease::run(cloud, lease, global).await,
        Command::Policy(policy) => policy::run(cloud, policy, global).await,
        Command::Acl(acl) => acl::run(cloud, acl, global).await,
        Command::Quota(quota) => quota::run(cloud, quota, global).await,
        Command::Logout => login::logout(cloud, global).await,
        Command::Whoami => login::whoami(cloud, global).await,
        Command::User(user) => accounts::user(cloud, user, global).await,
        Command::Group(group) => accounts::group(cloud, group, global).await,
        Command::Session(session) => sessions::run(cloud, session, global).await,
        Command::Audit(asked) => audit::run(cloud, asked, global).await,
        Command::Run(run) => jobs::run(cloud, run, global).await,
        Command::Index(asked) => index::index(cloud, asked, global).await,
        Command::Jobs(wanted) => jobs::jobs(cloud, wanted, global).await,
        Command::Job(job) => jobs::job(cloud, job, global).await,
        Command::Import(files) => import::import(cloud, files, global).await,
        Command::Rebuild(rebuild) => rebuild::run(cloud, rebuild, global).await,
        Command::Up(_)
        | Command::Down
        | Command::Demo(_)
        | Command::Security(_)
        | Command::Master(_)
        | Command::Node(_)
        | Command::Gateway(_)
        | Command::Doctor(_)
        | Command::Login(_)
        | Command::Profile(_)
        | Command::Cp(_)
        | Command::Sync(_)
        | Command::Backup(_)
        | Command::Restore(_)
        | Command::Inspect(_)
        | Command::Completions { .. }
        | Command::CompletePaths { .. }
        | Command::Man { .. }
        | Command::Spe
        | Command::Driver
        | Command::Application(_) => Err(Failure::failed("this command needs no login")),
    }
}
