//! Settings of a gateway, which serves the web page and its interface. It never holds a user's secret: people bring
//! their own, or the page is public with the rights of one user.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use protocol::HostAddress;

use super::{
    InvalidSetting, Settings,
    checked::{check_range, make_absolute},
    keys::settings,
    webhooks::{self, WebhookTables},
};

settings! {
    /// Settings of a gateway.
    struct GatewaySettings of "gateway" {
        /// Address and port (TCP) for browsers and programs. Port 0 takes any free one. Beyond this machine, browsers
        /// need `certificate` and `key`.
        listen: SocketAddr = default("127.0.0.1:7080"),
        /// Address and port at which Prometheus reads what it counts: plain HTTP without a login, so let only the scraper
        /// reach it. By default none.
        metrics_listen: Option<SocketAddr> = optional(),
        /// The master.
        master: HostAddress = required("master.example.org:7400"),
        /// Certificate of the cloud's authority, in the folder of this file unless absolute.
        authority: PathBuf = default("authority.pem"),
        /// Its certificate for browsers, PEM, with those between it and an authority that browsers trust.
        certificate: Option<PathBuf> = optional(),
        /// The private key of `certificate`; only the gateway's own user should be able to read it.
        key: Option<PathBuf> = optional(),
        /// Serve readable text beyond this machine too, for example behind a server that adds TLS. Then anyone on the
        /// network in between can read passwords and files.
        insecure_http: bool = default(false),
        /// A profile with whose rights visitors may read without a login. They change nothing.
        public_profile: Option<PathBuf> = optional(),
        /// A profile of an administrator, or of a service account in the group `gateways`, that learns whose access keys
        /// are. With it the gateway speaks S3, too; without it, it does not.
        s3_profile: Option<PathBuf> = optional(),
        /// A domain of which each bucket is a host, as `BUCKET.s3.example.org` is of `s3.example.org`.
        s3_domain: Option<String> = optional(),
        /// Hosts to and from which third-party copies of WebDAV may go although their addresses are not public, as those of a
        /// private network.
        transfer_hosts: Option<Vec<String>> = optional(),
        /// Certificates, PEM, of further authorities that such hosts are trusted by, beside those of the system.
        transfer_authority: Option<PathBuf> = optional(),
        /// Third-party copies at once, 1 to 1000. More are refused for the moment.
        transfers_max: u64 = default(32),
        /// Sessions of people and programs at once, 1 to 100000. Each takes some kilobytes here and at the master.
        sessions_max: u64 = default(2_000),
        /// Connections at once, 1 to 100000.
        connections_max: u64 = default(4_000),
        /// Folder for what webhooks must remember; needed where there is one.
        folder: Option<PathBuf> = optional(),
        /// Events that are sent to addresses, one table `[[webhook]]` each.
        webhook: Option<WebhookTables> = optional(),
    }
}

impl Settings for GatewaySettings {
    fn check(&mut self, base: &Path) -> Result<(), InvalidSetting> {
        make_absolute(&mut self.authority, base);
        for file in [
            &mut self.certificate,
            &mut self.key,
            &mut self.public_profile,
            &mut self.s3_profile,
            &mut self.transfer_authority,
        ]
        .into_iter()
        .flatten()
        {
            make_absolute(file, base);
        }
        check_range(&["sessions_max"], self.sessions_max, 1, 100_000)?;
        check_range(&["connections_max"], self.connections_max, 1, 100_000)?;
        check_range(&["transfers_max"], self.transfers_max, 1, 1_000)?;
        if let Some(folder) = &mut self.folder {
            make_absolute(folder, base);
        }
        webhooks::check(self.webhook.get_or_insert_default(), base)?;
        if self.webhook.as_ref().is_some_and(Vec::is_empty) {
            self.webhook = None;
        }
        let wrong = |keys, why: &str| Err(InvalidSetting { keys, why: why.into() });
        if self.s3_domain.is_some() && self.s3_profile.is_none() {
            return wrong(&["s3_domain"], "S3 needs to know whose access keys are: give `s3_profile` too");
        }
        if self.webhook.is_some() && self.folder.is_none() {
            return wrong(&["webhook"], "a webhook remembers how far it is: give `folder` too");
        }
        match (&self.certificate, &self.key) {
            (Some(_), None) => wrong(&["certificate"], "it needs its private key: give `key` too"),
            (None, Some(_)) => wrong(&["key"], "it needs its certificate: give `certificate` too"),
            (None, None) if !self.listen.ip().is_loopback() && !self.insecure_http => wrong(
                &["listen"],
                "without `certificate` and `key` passwords would cross the network readable: give both, or listen at \
                 127.0.0.1, or set `insecure_http`",
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::settings::Checked;

    fn check(text: &str) -> Result<Checked<GatewaySettings>, String> {
        let text = format!("master = \"10.0.0.1:7400\"\n{text}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.toml");
        std::fs::write(&file, text).unwrap();
        Checked::read(&file).map_err(|error| error.to_string())
    }

    #[test]
    fn passwords_do_not_cross_a_network_readable_unless_someone_says_so() {
        assert!(check("").is_ok());
        assert!(check("listen = \"0.0.0.0:443\"").unwrap_err().contains("insecure_http"));
        assert!(check("listen = \"0.0.0.0:80\"\ninsecure_http = true").is_ok());
        let with_tls = check("listen = \"0.0.0.0:443\"\ncertificate = \"c.pem\"\nkey = \"/k.pem\"").unwrap();
        assert!(with_tls.certificate.as_ref().is_some_and(|file| file.is_absolute() && file.ends_with("c.pem")));
        assert!(check("certificate = \"c.pem\"").unwrap_err().contains("`key`"));
    }

    #[test]
    fn s3_is_spoken_only_where_somebody_knows_whose_keys_are() {
        assert!(check("s3_domain = \"s3.example.org\"").unwrap_err().contains("s3_profile"));
        let both = check("s3_domain = \"s3.example.org\"\ns3_profile = \"p.toml\"").unwrap();
        assert!(both.s3_profile.as_ref().is_some_and(|file| file.is_absolute()));
    }

    #[test]
    fn a_webhook_is_checked_before_anything_is_sent() {
        let hook = |more: &str| {
            let text = format!(
                "folder = \"state\"\n[[webhook]]\nname = \"a\"\nsecret_file = \"s\"\nprofile = \"/p\"\n{more}\n"
            );
            check(&text)
        };
        let good = hook("url = \"https://h\"\nkinds = [\"file_published\"]\npath = \"/d/*\"").unwrap();
        assert!(good.webhook.as_ref().is_some_and(|hooks| hooks[0].secret_file.is_absolute()));
        assert!(hook("url = \"ftp://h\"").unwrap_err().contains("https://"));
        assert!(hook("url = \"http://h\"\nkinds = [\"file_made\"]").unwrap_err().contains("file_published"));
        assert!(hook("url = \"http://h\"\npath = \"d\"").unwrap_err().contains("begins with `/`"));
        assert!(hook("").unwrap_err().contains("url"));
        let without_folder = "[[webhook]]\nname = \"a\"\nsecret_file = \"s\"\nprofile = \"p\"\nurl = \"http://h\"";
        assert!(check(without_folder).unwrap_err().contains("folder"));
    }
}
