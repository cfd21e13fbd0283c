//! Makes the text of `docs/settings.md` from the keys themselves. Only its tests touch the file; the code itself never
//! does.

use std::fmt::Write;

use super::{
    GatewaySettings, Key, Keyed, LdapSettings, MasterSettings, NodeSettings, OidcSettings, SecuritySettings,
    WebhookSettings,
};

/// The reference of all settings as Markdown.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    section::<SecuritySettings>(&mut page, "sector security --config security.toml");
    section::<LdapSettings>(&mut page, "[providers.NAME], kind = \"ldap\", in security.toml");
    section::<OidcSettings>(&mut page, "[providers.NAME], kind = \"oidc\", in security.toml");
    section::<MasterSettings>(&mut page, "sector master --config master.toml");
    section::<NodeSettings>(&mut page, "sector node --config node.toml");
    section::<GatewaySettings>(&mut page, "sector gateway --config gateway.toml");
    section::<WebhookSettings>(&mut page, "[[webhook]], in gateway.toml");
    page
}

fn section<T: Keyed>(page: &mut String, command: &str) {
    let title = T::ROLE[..1].to_uppercase() + &T::ROLE[1..];
    // Writing to a `String` cannot fail.
    let _ = write!(page, "\n## {title}\n\n`{command}`\n\n");
    page.push_str("| key | value | default | what it is, and why |\n|---|---|---|---|\n");
    for key in T::KEYS {
        let _ = writeln!(page, "| `{}` | {} | {} | {} |", key.name, kind(key), default(key), text(key));
    }
}

fn kind(key: &Key) -> &'static str {
    match key.kind {
        "SocketAddr" | "Option<SocketAddr>" => "address and port",
        "HostAddress" => "host and port",
        "PathBuf" | "Option<PathBuf>" => "path",
        "Option<Vec<PathBuf>>" => "list of paths",
        "Option<Vec<String>>" => "list of texts",
        "Option<BTreeMap<String, String>>" => "table of texts",
        "Option<ProviderTables>" | "Option<WebhookTables>" => "tables",
        "String" | "Option<String>" | "NodeId" => "text",
        "UserClaim" | "SandboxDemand" | "CarrierChoice" | "ControllerKind" | "ThirdPartyFrom" => "text",
        "Option<BTreeMap<UserName, u32>>" => "table of numbers",
        "UserRange" => "two numbers",
        "bool" => "yes or no",
        _ => "number",
    }
}

fn default(key: &Key) -> String {
    match (key.presence, key.value) {
        ("required", Some(example)) => format!("none, required; for example `{example}`"),
        (_, Some(value)) => format!("`{}`", value.replace('_', if value.starts_with('"') { "_" } else { "" })),
        (_, None) => "none".into(),
    }
}

/// The comment as one line; a bar would end the table's cell.
fn text(key: &Key) -> String {
    key.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

const HEAD: &str = "\
# Settings

Made from the code (`crates/daemon/src/settings/`); do not edit. To make it again:
`UPDATE_REFERENCE=1 cargo test -p sector-daemon reference`.

Each role of a cloud reads one TOML file. `sector up` needs none. A key that is not listed here is refused, with its
line. Every key has its unit in its name. A relative path is relative to the folder of the file, but for the three
credential files, which are relative to `folder`.
";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_reference_in_the_docs_is_that_of_the_code() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            fs::write(&file, reference()).unwrap();
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            found == reference(),
            "docs/settings.md is not that of the code: UPDATE_REFERENCE=1 cargo test -p sector-daemon reference"
        );
    }

    #[test]
    fn every_key_has_a_reason_and_a_default_that_can_be_read() {
        // Reads every default and example once; a wrong one would panic here and nowhere else.
        let _ = (SecuritySettings::default(), MasterSettings::default(), NodeSettings::default());
        let _ = (LdapSettings::default(), OidcSettings::default());
        let all = [SecuritySettings::KEYS, LdapSettings::KEYS, OidcSettings::KEYS, MasterSettings::KEYS];
        for keys in all.into_iter().chain([NodeSettings::KEYS]) {
            for key in keys {
                assert!(text(key).len() > 20 && text(key).ends_with('.'), "`{}` needs its text", key.name);
                assert!(key.value.is_some() || key.presence == "optional", "`{}` needs a default", key.name);
                let unit = ["seconds", "millis", "bytes", "max", "copies", "slots"];
                let is_number = kind(key) == "number";
                assert!(!is_number || unit.iter().any(|unit| key.name.ends_with(unit)), "`{}` needs a unit", key.name);
            }
        }
    }

    #[test]
    fn numbers_are_shown_as_toml_takes_them_and_bars_do_not_break_the_table() {
        let key = Key { name: "x", kind: "u64", presence: "default", value: Some("1_000"), doc: &[" a|b", " c"] };
        assert_eq!(default(&key), "`1000`");
        assert_eq!(text(&key), "a\\|b c");
        let key = Key { value: Some("\"a_b\""), ..key };
        assert_eq!(default(&key), "`\"a_b\"`");
    }
}
