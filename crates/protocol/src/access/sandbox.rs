//! The layers between a user function and the machine it runs on (Sector/Sphere paper, 2.3 and 3.3), as nodes, masters
//! and people name them. It never builds a layer: the node does (`crates/spe/src/sandbox/`).

use std::fmt;

use serde::{Deserialize, Serialize};

/// One layer of the sandbox. Layers overlap, so that a hole in one is not a way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SandboxLayer {
    /// A user of its own, or at least a user namespace: the function is not the node's user.
    Identity,
    /// A root folder of its own, with nothing in it but libraries and its scratch folder.
    Files,
    /// Landlock: kernel rules about which files a process may touch, whatever its user may.
    FileRules,
    /// A network of its own, without any interface.
    Network,
    /// Process numbers of its own: it sees no other process, and its children end with it.
    Processes,
    /// Shared memory, queues and host name of its own.
    Ipc,
    /// No capability, and none to be gained by running another program.
    Privileges,
    /// A list of the system calls that it may make.
    SystemCalls,
    /// Limits on memory, files, threads.
    Limits,
}

impl SandboxLayer {
    /// All of them, in the order in which they are named.
    pub const ALL: [Self; 9] = [
        Self::Identity,
        Self::Files,
        Self::FileRules,
        Self::Network,
        Self::Processes,
        Self::Ipc,
        Self::Privileges,
        Self::SystemCalls,
        Self::Limits,
    ];

    /// Its name in JSON and in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Files => "files",
            Self::FileRules => "file rules",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Ipc => "ipc",
            Self::Privileges => "privileges",
            Self::SystemCalls => "system calls",
            Self::Limits => "limits",
        }
    }

    /// What an operator can do to get it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Identity => "start the node as root, or allow user namespaces (sysctl user.max_user_namespaces)",
            Self::Files | Self::Network | Self::Processes | Self::Ipc => {
                "start the node as root, or allow user namespaces (sysctl user.max_user_namespaces, and on Ubuntu \
                 kernel.apparmor_restrict_unprivileged_userns=0)"
            }
            Self::FileRules => "use a kernel of 5.13 or later with `landlock` among its security modules (lsm=...)",
            Self::Privileges => "let nothing filter the system call prctl",
            Self::SystemCalls => "use a kernel with seccomp filters",
            Self::Limits => "raise the hard limits of the node's process to what its settings ask for",
        }
    }

    /// Names, one after the other.
    pub fn list(layers: &[Self]) -> String {
        layers.iter().map(|layer| layer.name()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for SandboxLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_has_a_name_of_its_own_and_advice() {
        let mut names: Vec<_> = SandboxLayer::ALL.iter().map(|layer| layer.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SandboxLayer::ALL.len());
        assert!(SandboxLayer::ALL.iter().all(|layer| layer.advice().len() > 20));
        assert_eq!(SandboxLayer::list(&[SandboxLayer::Files, SandboxLayer::Ipc]), "files, ipc");
    }
}
