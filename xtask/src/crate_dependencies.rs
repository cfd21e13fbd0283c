//! Dependencies point down only: which of our crates may use which (`ARCHITECTURE.md`, Floors). It reads the
//! manifests, so a new dependency fails here before it is used. It never looks at the dependencies of tests.

use std::fs;

use crate::shell::root;

/// A crate and the crates it may use, outside its tests.
const MAY_USE: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("udf", &[]),
    ("functions", &["udf"]),
    ("fits", &[]),
    ("vo", &[]),
    ("sphere", &["protocol"]),
    ("net", &["protocol"]),
    ("gmp", &["protocol", "net"]),
    ("testbed", &["protocol"]),
    ("measure", &["protocol", "net", "testbed"]),
    ("store", &["protocol"]),
    ("daemon", &["protocol"]),
    ("spe", &["protocol", "udf"]),
    ("security", &["protocol", "net", "store", "daemon"]),
    ("master", &["protocol", "net", "store", "daemon"]),
    // `functions` only for the SPE process of its tests.
    ("node", &["protocol", "sphere", "net", "store", "daemon", "spe", "functions"]),
    ("client", &["protocol", "sphere", "net"]),
    ("gateway", &["client", "daemon"]),
    ("s3", &["client"]),
    ("webdav", &["client", "daemon", "gateway"]),
    ("terminal", &["protocol", "daemon", "client"]),
    ("terasort", &["protocol", "client", "terminal", "functions"]),
    (
        "sector",
        &[
            "protocol",
            "sphere",
            "net",
            "store",
            "daemon",
            "spe",
            "security",
            "master",
            "node",
            "client",
            "gateway",
            "s3",
            "webdav",
            "terminal",
            "functions",
            "terasort",
        ],
    ),
    ("oct", &["protocol", "daemon", "client", "terminal", "terasort", "functions", "measure", "testbed"]),
    ("dali", &["client", "daemon", "gateway", "terminal", "vo"]),
    ("astroportal", &["protocol", "daemon", "client", "gateway", "terminal", "fits", "udf", "vo", "dali"]),
    ("graywulf", &["protocol", "client", "gateway", "terminal", "vo", "dali", "fits"]),
    ("python", &["client", "gmp"]),
    ("sim", &["protocol", "sphere", "net", "store", "master", "node", "functions", "udf"]),
    ("tests", &["protocol", "client", "functions", "testbed"]),
    ("fuzz", &["protocol", "sphere", "net", "store", "master", "node", "spe", "fits", "vo"]),
    ("bench", &["measure", "protocol", "sphere"]),
    ("xtask", &[]),
    ("udf-rust", &["udf"]),
];

/// Reads every manifest and fails on a dependency that is not in the table.
pub(crate) fn run() -> Result<(), String> {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for folder in ["crates", "examples", ""] {
        let folder = root().join(folder);
        for item in fs::read_dir(&folder).map_err(|error| error.to_string())?.flatten() {
            let Ok(manifest) = fs::read_to_string(item.path().join("Cargo.toml")) else { continue };
            let room = item.file_name().to_string_lossy().into_owned();
            seen += 1;
            wrong.extend(forbidden_dependencies(&room, &manifest)?);
        }
    }
    if seen < MAY_USE.len() {
        wrong.push(format!("the table names {} rooms, only {seen} were found", MAY_USE.len()));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The dependencies of one manifest that the table does not have.
fn forbidden_dependencies(room: &str, manifest: &str) -> Result<Vec<String>, String> {
    let manifest: toml::Table = manifest.parse().map_err(|error| format!("{room}/Cargo.toml: {error}"))?;
    if !manifest.contains_key("package") {
        return Ok(Vec::new());
    }
    let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == room) else {
        return Ok(vec![format!(
            "`{room}` is not in the table of xtask/src/crate_dependencies.rs; say there what it may use"
        )]);
    };
    let names = |table: &str| -> Vec<String> {
        manifest
            .get(table)
            .and_then(toml::Value::as_table)
            .into_iter()
            .flat_map(|table| table.keys().cloned())
            .collect()
    };
    let ours = |name: &String| MAY_USE.iter().any(|(room, _)| room == name);
    let wrong = names("dependencies")
        .into_iter()
        .chain(names("build-dependencies"))
        .filter(ours)
        .filter(|name| !allowed.contains(&name.as_str()))
        .map(|name| format!("`{room}` may not use `{name}`: arrows go down only (ARCHITECTURE.md)"));
    Ok(wrong.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_obeys_the_table() {
        assert_eq!(run(), Ok(()));
    }

    #[test]
    fn an_arrow_up_or_sideways_is_found() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nprotocol.workspace = true\nnode.workspace = true\ntokio = \"1\"\n";
        assert_eq!(forbidden_dependencies("net", manifest).map(|wrong| wrong.len()), Ok(1));
        assert_eq!(forbidden_dependencies("master", manifest).map(|wrong| wrong.len()), Ok(1));
        assert_eq!(forbidden_dependencies("unheard-of", manifest).map(|wrong| wrong.len()), Ok(1));
    }

    #[test]
    fn the_table_itself_has_no_circle() {
        let mut order: Vec<&str> = Vec::new();
        while order.len() < MAY_USE.len() {
            let next = MAY_USE
                .iter()
                .find(|(room, uses)| !order.contains(room) && uses.iter().all(|name| order.contains(name)));
            let Some((room, _)) = next else { panic!("the rooms beside {order:?} go round in a circle") };
            order.push(room);
        }
    }
}
