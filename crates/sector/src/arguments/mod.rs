//! The command line: names, options and one example each. `docs/command-line.md` is the contract. This module never
//! runs a command.

mod account_args;
mod acl_args;
mod admission_args;
mod audit_args;
mod backup_args;
mod cloud_args;
mod events_args;
mod file_args;
mod job_args;
mod limit_args;
mod links_args;
mod load_args;
mod mark_args;
mod profile_args;
mod top_args;
mod wait_args;

use std::{ffi::OsString, path::PathBuf};

use clap::{Parser, Subcommand};
use clap_complete::Shell;
pub(crate) use terminal::Global;

pub(crate) use account_args::{GroupCommand, KeyCommand, Login, SessionCommand, TokenCommand, UserCommand};
pub(crate) use acl_args::AclCommand;
pub(crate) use admission_args::{
    Allow, Approve, MasterJoin, NodeJoin, NodeTicket, SecurityCommand, SecurityInit, SecurityRole, SecurityTicket,
};
pub(crate) use audit_args::{Audit, AuditCommand, AuditFolder, AuditShow};
pub(crate) use backup_args::{Backup, Restore};
pub(crate) use cloud_args::{
    Demo, Doctor, Drain, ImportFiles, Inspect, Inspected, MasterCommand, MasterRole, Metrics, Node, NodeVerb,
    Rebalance, Rebuild, RemoveNode, Role, TopologyVerb, Up, Web,
};
pub(crate) use events_args::Events;
pub(crate) use file_args::{
    Cat, Check, Cp, Du, Get, LeaseCommand, Ls, Mkdir, Mv, Paths, PolicyCommand, Put, QuotaCommand, Rm, SyncFolders,
    TrashCommand, Versions,
};
pub(crate) use job_args::{Index, JobArguments, JobsArguments, Run};
pub(crate) use limit_args::{LimitArgument, TransferLimitArguments};
pub(crate) use links_args::Links;
pub(crate) use load_args::Load;
pub(crate) use mark_args::{MarkCommand, MarkDecision, MarkedThing};
pub(crate) use profile_args::ProfileCommand;
pub(crate) use top_args::{Pane, TopArguments};
pub(crate) use wait_args::WaitArguments;

/// A storage cloud for large files over several data centres, and a compute cloud that runs functions where they lie.
#[derive(Debug, Parser)]
#[command(
    name = "sector",
    version,
    propagate_version = true,
    after_help = crate::application::FURTHER_HELP
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a whole cloud on this machine
    #[command(after_help = "Example: sector up --nodes 4 --sites 2 --detach")]
    Up(Up),
    /// Stop the cloud that `sector up` started
    #[command(after_help = "Example: sector down")]
    Down,
    /// The tour: a cloud, real files, an inverted index, a sort, all verified
    #[command(after_help = "Example: sector demo --input ~/texts --records 1000000")]
    Demo(Demo),
    /// Run a security server, make a cloud, or make a ticket for a master
    #[command(after_help = "Example: sector security --config security.toml")]
    Security(SecurityRole),
    /// Run a master
    #[command(after_help = "Example: sector master --config master.toml")]
    Master(MasterRole),
    /// Run a node, let nodes in, or drain, remove and list them
    #[command(after_help = "Example: sector node drain node-3 --wait   (`sector node --config FILE` runs one)")]
    Node(Node),
    /// Run a gateway: the web page, and its interface for programs
    #[command(after_help = "Example: sector gateway --config gateway.toml")]
    Gateway(Role),
    /// Print a link that logs you in at the web page, once
    #[command(after_help = "Example: sector web --open")]
    Web(Web),
    /// The nodes and how they are
    #[command(after_help = "Example: sector nodes --json")]
    Nodes,
    /// Move slices from fuller to emptier nodes
    #[command(after_help = "Example: sector rebalance --dry-run")]
    Rebalance(Rebalance),
    /// Who stands where, how far sites are apart, and how much copies may take
    #[command(subcommand, after_help = "Example: sector topology check sites.toml")]
    Topology(TopologyVerb),
    /// What is slow and therefore used less, and what you decide about it
    #[command(subcommand, after_help = "Example: sector mark list")]
    Mark(MarkCommand),
    /// Is the cloud well, and what to do if not
    #[command(after_help = "Example: sector health")]
    Health,
    /// How busy the nodes are, or were at any time of the last day
    #[command(after_help = "Example: sector load --ago 10m   (`sector load node-1 --last 1h`: one node over time)")]
    Load(Load),
    /// What goes over the links between sites, or went at any time of the last day
    #[command(after_help = "Example: sector links --ago 10m   (`sector links uic jhu --last 1h`: one link over time)")]
    Links(Links),
    /// Watch nodes, jobs, background work, transfers and links in the terminal, each second anew; `?` names the keys
    #[command(after_help = "Example: sector top   (`sector top --once jobs`: one screen as text)")]
    Top(TopArguments),
    /// What happened in the cloud, and with --follow what happens: files, nodes, disks, jobs, health
    #[command(after_help = "Example: sector events --follow --kind file_published --path '/data/*.csv'")]
    Events(Events),
    /// All background work of the cloud: how far it is, and what went wrong last
    #[command(after_help = "Example: sector work")]
    Work,
    /// What a role counts, in the text format of Prometheus
    #[command(after_help = "Example: sector metrics node-1")]
    Metrics(Metrics),
    /// What of this machine will hurt a cloud, and how to mend it
    #[command(after_help = "Example: sector doctor /mnt/disk1 /mnt/disk2")]
    Doctor(Doctor),
    /// Upload files, or standard input (`-`)
    #[command(
        override_usage = "sector put [OPTIONS] SRC... DST",
        after_help = "Example: sector put -r --records lines --limit 200mbit logs /logs   (what `logs` holds goes to `/logs`)"
    )]
    Put(Put),
    /// Download files
    #[command(
        override_usage = "sector get [OPTIONS] SRC... DST",
        after_help = "Example: sector get -r /logs logs   (what `/logs` holds comes to `logs`)"
    )]
    Get(Get),
    /// Print a file's bytes
    #[command(after_help = "Example: sector cat --range 0-99 /logs/a.txt   (the first 100 bytes)")]
    Cat(Cat),
    /// List a folder
    #[command(after_help = "Example: sector ls -l '/logs/*.txt'")]
    Ls(Ls),
    /// Show a folder as a tree
    #[command(after_help = "Example: sector tree /logs")]
    Tree(Paths),
    /// Print the paths of all files below a folder, or that match a glob
    #[command(after_help = "Example: sector find '/logs/**/*.gz'")]
    Find(Paths),
    /// Count files and bytes below a path
    #[command(after_help = "Example: sector du /logs")]
    Du(Du),
    /// Show all that is known of a path
    #[command(after_help = "Example: sector stat --json /logs/a.txt")]
    Stat(Paths),
    /// Read every copy and compare it with its digest
    #[command(after_help = "Example: sector check -r /logs --json")]
    Check(Check),
    /// Make folders
    #[command(after_help = "Example: sector mkdir -p /a/b/c")]
    Mkdir(Mkdir),
    /// Rename, or move into a folder
    #[command(override_usage = "sector mv [OPTIONS] SRC... DST", after_help = "Example: sector mv /a/x.dat /b/")]
    Mv(Mv),
    /// Copy within the cloud, or from one cloud to another
    #[command(
        override_usage = "sector cp [OPTIONS] SRC... DST",
        after_help = "Example: sector cp -r /a /b   (to the cloud of the profile `chicago`: sector cp -r /a sector://@chicago/b)"
    )]
    Cp(Cp),
    /// Make a folder equal to another: of this machine, of the cloud, or of two clouds
    #[command(
        after_help = "Example: sector sync --delete --exclude '*.tmp' logs sector://logs   (--dry-run shows what it would do)"
    )]
    Sync(SyncFolders),
    /// Remove files, or folders with -r: to the trash, or with --now for good
    #[command(after_help = "Example: sector rm -r /tmp")]
    Rm(Rm),
    /// The contents of a file that were replaced and can be had back, oldest first
    #[command(
        after_help = "Example: sector versions /a/x.dat   (to take one back: sector cp /.trash/alice/1700000000000/a/x.dat /a/x.dat)"
    )]
    Versions(Versions),
    /// What was removed and can be restored
    #[command(subcommand, after_help = "Example: sector trash restore /a/x.dat")]
    Trash(TrashCommand),
    /// Who is writing what, and how to end it
    #[command(subcommand, after_help = "Example: sector lease list --all-users")]
    Lease(LeaseCommand),
    /// What is wished for a file, or for all below a folder
    #[command(subcommand, after_help = "Example: sector policy set /sdss copies=2 sites=jhu,uic")]
    Policy(PolicyCommand),
    /// Who may do what with files and folders
    #[command(subcommand, after_help = "Example: sector acl set /sdss user:alice:rw,group:astro:rx")]
    Acl(AclCommand),
    /// How much users and folders keep, and may
    #[command(subcommand, after_help = "Example: sector quota set alice bytes=1TB")]
    Quota(QuotaCommand),
    /// Log in with a password or a browser; the profile then holds a session
    #[command(after_help = "Example: sector login alice --master 192.0.2.1:7400 --authority authority.pem   \
                            (or, with a browser: sector login --oidc)")]
    Login(Login),
    /// End the session that the profile holds
    #[command(after_help = "Example: sector logout")]
    Logout,
    /// Who you are, in which groups, and until when
    #[command(after_help = "Example: sector whoami --json")]
    Whoami,
    /// Users, their passwords and tokens
    #[command(subcommand, after_help = "Example: sector user add alice --group astro")]
    User(UserCommand),
    /// Groups of users
    #[command(subcommand, after_help = "Example: sector group join astro alice")]
    Group(GroupCommand),
    /// Login sessions
    #[command(subcommand, after_help = "Example: sector session revoke --user alice")]
    Session(SessionCommand),
    /// Clouds by name: which profiles there are, and which one commands use
    #[command(subcommand, after_help = "Example: sector profile use chicago")]
    Profile(ProfileCommand),
    /// Who did what: the record of logins, refusals, grants, administrators' acts and jobs
    #[command(after_help = "Example: sector audit --since 1h --kind refusal")]
    Audit(Audit),
    /// Run a Sphere job: a function over records where they lie
    #[command(after_help = "Example: sector run --udf words --input /text --buckets 8 --then index --output /index")]
    Run(Run),
    /// Tell where the records of files begin, for jobs with `--records index`: makes FILE.idx beside each FILE
    #[command(after_help = "Example: sector index /genome/*.fa --begins '>'")]
    Index(Index),
    /// The jobs, newest first
    #[command(after_help = "Example: sector jobs --user alice --state running")]
    Jobs(JobsArguments),
    /// One job
    #[command(after_help = "Example: sector job 3f2a77c01b9d4e55 --wait")]
    Job(JobArguments),
    /// Take in files that already lie on a node, in place
    #[command(after_help = "Example: sector import --node node-1 survey /sky/survey")]
    Import(ImportFiles),
    /// The names after the master's journal was lost: how far they are, and what was in doubt
    #[command(subcommand, after_help = "Example: sector rebuild status")]
    Rebuild(Rebuild),
    /// Take a copy of the master's journal and of the security server, while they run
    #[command(after_help = "Example: sector backup /backups --folder /srv/sector")]
    Backup(Backup),
    /// Put such a copy back, while they are stopped
    #[command(after_help = "Example: sector restore /backups --role master")]
    Restore(Restore),
    /// Look at what lies on a disk while nobody uses it: a journal, a sidecar, a node's data folder
    #[command(subcommand, after_help = "Example: sector inspect inventory /srv/node-1")]
    Inspect(Inspect),
    /// Print what a shell needs to complete commands and options
    #[command(after_help = "Example: sector completions bash   \
                            (to ~/.local/share/bash-completion/completions/sector)")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// The paths in the cloud that begin as the last word does; asked by shells
    #[command(hide = true)]
    CompletePaths {
        /// The words of the command line after `sector`, up to the one that is being typed
        #[arg(last = true)]
        words: Vec<OsString>,
    },
    /// Write a manual page of each command
    #[command(after_help = "Example: sector man /usr/local/share/man/man1")]
    Man {
        /// Where to: a folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// The process that runs user functions for a node
    #[command(hide = true)]
    Spe,
    /// Drives a detached job; started by nodes only
    #[command(hide = true)]
    Driver,
    /// A program of its own, `sector-NAME`
    #[command(external_subcommand)]
    Application(Vec<OsString>),
}

impl Command {
    /// Whether the command runs a role, whose log people read later.
    pub(crate) fn is_server(&self) -> bool {
        matches!(
            self,
            Self::Up(_)
                | Self::Security(SecurityRole { command: None, .. })
                | Self::Master(MasterRole { command: None, .. })
                | Self::Node(Node { verb: None, .. })
                | Self::Gateway(_)
        )
    }

    /// Whether the command has the whole screen, over which no log may be written.
    pub(crate) fn has_screen(&self) -> bool {
        matches!(self, Self::Top(top) if !top.once)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound_and_every_command_has_an_example() {
        let command = Arguments::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let after = sub.get_after_help().unwrap_or_else(|| panic!("{} has no example", sub.get_name()));
            let example = after.to_string();
            let words = example.strip_prefix("Example: ").unwrap().split("   (").next().unwrap();
            let words: Vec<_> = words.split(' ').map(|word| word.trim_matches('\'')).collect();
            assert!(Arguments::try_parse_from(&words).is_ok(), "the example of {} does not parse", sub.get_name());
        }
    }

    /// The pages of the reference and their commands.
    const PAGES: &[(&str, &str, &[&str])] = &[
        (
            "cloud",
            "Start, stop and watch a cloud",
            &[
                "up", "down", "demo", "web", "security", "master", "gateway", "nodes", "health", "load", "links",
                "top", "work", "events", "metrics", "doctor",
            ],
        ),
        ("nodes", "Nodes and sites", &["node", "rebalance", "topology", "mark"]),
        (
            "files",
            "Files and folders",
            &[
                "put", "get", "cat", "ls", "tree", "find", "du", "stat", "check", "mkdir", "mv", "cp", "sync", "rm",
                "versions", "trash", "lease", "import",
            ],
        ),
        ("rights", "Policies, rights and quotas", &["policy", "acl", "quota"]),
        (
            "accounts",
            "Users, logins and the record of what they did",
            &["login", "logout", "whoami", "profile", "user", "group", "session", "audit"],
        ),
        ("jobs", "Jobs", &["run", "index", "jobs", "job"]),
        ("recovery", "Backups, and what to do after a disk was lost", &["rebuild", "backup", "restore", "inspect"]),
        ("shell", "Completion and manual pages", &["completions", "man"]),
    ];

    #[test]
    fn the_reference_is_that_of_the_parser_and_tells_each_command_once() {
        let mut command = Arguments::command();
        command.build();
        let mut told: Vec<_> = PAGES.iter().flat_map(|(_, _, names)| names.iter().copied()).collect();
        told.sort_unstable();
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
        let mut all: Vec<_> = shown.map(clap::Command::get_name).collect();
        all.sort_unstable();
        assert_eq!(told, all);
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        for (page, title, names) in PAGES {
            let text = terminal::reference::page(title, &command, names);
            let is_current = terminal::reference::is_current(&folder.join(format!("{page}.md")), &text).unwrap();
            assert!(is_current, "docs/reference/{page}.md is not that of the parser: cargo xtask reference");
        }
    }

    #[test]
    fn options_may_stand_anywhere_and_short_ones_have_long_forms() {
        for line in [
            "sector put a --copies 2 b -r /x",
            "sector get /x -f x",
            "sector cp /a --limit 10mbit /b -n /c",
            "sector mv /a -n /b -v /c",
            "sector help put",
            "sector help node ticket",
        ] {
            let parsed = Arguments::try_parse_from(line.split(' '));
            let is_help = matches!(&parsed, Err(error) if error.kind() == clap::error::ErrorKind::DisplayHelp);
            assert!(parsed.is_ok() || is_help, "{line}: {parsed:?}");
        }
        let mut commands: Vec<_> = Arguments::command().get_subcommands().cloned().collect();
        while let Some(command) = commands.pop() {
            for argument in command.get_arguments().filter(|argument| argument.get_short().is_some()) {
                assert!(argument.get_long().is_some(), "{} of {}", argument.get_id(), command.get_name());
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }

    #[test]
    fn no_command_has_an_option_of_its_own_under_a_name_that_all_have() {
        let command = Arguments::command();
        let of_all: Vec<_> = command
            .get_arguments()
            .filter(|of_all| of_all.is_global_set())
            .map(|of_all| of_all.get_id().clone())
            .collect();
        assert!(of_all.len() >= 6);
        let mut commands: Vec<_> = command.get_subcommands().collect();
        while let Some(command) = commands.pop() {
            for own in command.get_arguments() {
                assert!(!of_all.contains(own.get_id()), "{} of `{}`", own.get_id(), command.get_name());
            }
            commands.extend(command.get_subcommands());
        }
    }
}
