//! Settings of webhooks: the tables `[[webhook]]` of a gateway. It never reads the files that they name.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use protocol::message::events::EventKind;

use super::{InvalidSetting, checked::make_absolute, keys::settings};

/// All webhooks of a gateway.
pub type WebhookTables = Vec<WebhookSettings>;

settings! {
    /// Settings of a webhook: events that a gateway sends to an address.
    struct WebhookSettings of "webhook" {
        /// Its name: letters, digits and dashes. Its place in the events is kept under it, in `folder`.
        name: String = required("index"),
        /// Where the events are sent: `https://…` or `http://…`. Redirections are not followed.
        url: String = required("https://example.org/sector"),
        /// File with the secret that signs each message: `whsec_` and 24 to 64 random bytes in base64.
        secret_file: PathBuf = required("index.secret"),
        /// Profile of the user whose events these are: what that user may read.
        profile: PathBuf = required("index.profile"),
        /// Kinds of events (docs/events.md); all without it.
        kinds: Option<Vec<String>> = optional(),
        /// A path or glob: only what happens to it or below it.
        path: Option<String> = optional(),
        /// Certificates of the authorities that the receiver's certificate is checked against, PEM; by default those of
        /// the system.
        authority: Option<PathBuf> = optional(),
    }
}

/// Checks webhooks, and makes their paths absolute.
pub(super) fn check(hooks: &mut WebhookTables, base: &Path) -> Result<(), InvalidSetting> {
    let mut names = BTreeSet::new();
    for hook in hooks {
        let wrong = |why: String| InvalidSetting { keys: &["webhook"], why: format!("webhook `{}`: {why}", hook.name) };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if hook.name.is_empty() || hook.name.len() > 64 || !hook.name.bytes().all(is_name) {
            return Err(wrong("its name is letters, digits and dashes".into()));
        }
        if !names.insert(hook.name.clone()) {
            return Err(wrong("there are two of this name".into()));
        }
        if !hook.url.starts_with("https://") && !hook.url.starts_with("http://") {
            return Err(wrong(format!("`{}` is no address: it begins with `https://` or `http://`", hook.url)));
        }
        for kind in hook.kinds.iter().flatten() {
            kind.parse::<EventKind>().map_err(wrong)?;
        }
        if hook.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            return Err(wrong("its path begins with `/`".into()));
        }
        for file in [&mut hook.secret_file, &mut hook.profile].into_iter().chain(&mut hook.authority) {
            make_absolute(file, base);
        }
    }
    Ok(())
}
