//! Webhooks: events of the cloud, sent to addresses of the settings as signed HTTP requests (Standard Webhooks). Each goes
//! on where it was, also after a restart. Serves the path *events*. It never skips an event silently, and never sends two of
//! one webhook at a time.

mod delivery;
mod place;
mod signature;

use std::{path::Path, sync::Arc, time::Duration};

use client::{
    ClientError, Cloud, EventsFrom, Profile,
    events::{EventStream, EventsWanted},
    views::EventView,
};
use daemon::{
    settings::{GatewaySettings, WebhookSettings},
    shutdown::ShutdownToken,
};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use self::{
    delivery::{Delivery, Receiver},
    place::Place,
    signature::Secret,
};
use crate::{GatewayError, counts::Counts};

/// One of them, ready to run.
pub(crate) struct Webhook {
    name: String,
    profile: Profile,
    wanted: EventsWanted,
    place: Place,
    receiver: Receiver,
    counts: Counts,
}

/// All that the settings name.
///
/// # Errors
/// If a file of the settings cannot be used.
pub(crate) fn load(settings: &GatewaySettings, counts: &Counts) -> Result<Vec<Webhook>, GatewayError> {
    let hooks = settings.webhook.iter().flatten();
    // Checked with all settings: there is a folder where there is a webhook.
    let folder = settings.folder.clone().unwrap_or_default();
    hooks.map(|hook| Webhook::load(hook, &folder, counts.clone())).collect()
}

impl Webhook {
    fn load(settings: &WebhookSettings, folder: &Path, counts: Counts) -> Result<Self, GatewayError> {
        let unread = |what, file: &Path| {
            let file = file.to_owned();
            move |source| GatewayError::File { what, file, source }
        };
        let file = &settings.secret_file;
        let secret = std::fs::read_to_string(file).map_err(unread("secret of a webhook", file))?;
        let secret = Secret::parse(secret.trim()).map_err(|why| GatewayError::Webhook {
            name: settings.name.clone(),
            why: format!("`{}`: {why}", file.display()),
        })?;
        let authority = match &settings.authority {
            Some(file) => Some(std::fs::read(file).map_err(unread("authority of a webhook", file))?),
            None => None,
        };
        std::fs::create_dir_all(folder).map_err(unread("folder of the gateway", folder))?;
        let kinds = settings.kinds.iter().flatten();
        let kinds = kinds.map(|kind| kind.parse()).collect::<Result<Vec<_>, _>>();
        let wrong = |why| GatewayError::Webhook { name: settings.name.clone(), why };
        let place = Place::load(folder.join(format!("webhook-{}.json", settings.name)));
        let place = place.map_err(|why| wrong(format!("its place cannot be read: {why}")))?;
        Ok(Self {
            name: settings.name.clone(),
            profile: Profile::load(&settings.profile)?,
            wanted: EventsWanted {
                from: place.number().map_or(EventsFrom::Now, EventsFrom::After),
                kinds: kinds.map_err(wrong)?,
                path: settings.path.clone(),
                follow: true,
            },
            place,
            counts,
            receiver: Receiver::new(settings.url.clone(), secret, authority.as_deref())
                .map_err(|why| GatewayError::Webhook { name: settings.name.clone(), why })?,
        })
    }

    /// Sends events until asked to stop. Whatever happens, it goes on: it logs in again, and tries again.
    pub(crate) async fn run(mut self, cloud: Cloud, stopping: ShutdownToken) {
        let settings = cloud.settings();
        self.profile.address = settings.address.clone();
        self.profile.authority = settings.authority.clone();
        loop {
            let ended = tokio::select! {
                () = stopping.cancelled() => break,
                ended = self.follow(&cloud) => ended,
            };
            if let Err(error) = ended {
                tracing::warn!(webhook = self.name, %error, "a webhook cannot read events; it tries again");
            }
            tokio::select! {
                () = stopping.cancelled() => break,
                () = sleep(LOGIN_PAUSE) => {}
            }
        }
        self.save();
    }

    async fn follow(&mut self, cloud: &Cloud) -> Result<(), ClientError> {
        let client = cloud.log_in(&self.profile).await?;
        let mut events = client.events(EventsWanted { from: self.from(), ..self.wanted.clone() })?;
        let outcome = self.send_all(&mut events).await;
        // Best effort: without an answer the session expires by itself.
        let _ = timeout(LOGOUT_MAX, client.logout()).await;
        outcome
    }

    async fn send_all(&mut self, events: &mut EventStream) -> Result<(), ClientError> {
        loop {
            events.fill().await?;
            for item in events.take_queued() {
                let view = EventView::from(&item);
                self.send(&view).await;
                self.place.advance(view.number);
                if self.place.is_due() {
                    self.save();
                }
            }
            if let Some(position) = events.position() {
                self.place.advance(position);
            }
            self.save();
        }
    }

    /// Sends one event until it is taken, or for hours in vain.
    async fn send(&mut self, event: &EventView) {
        let body = json!({"type": event.kind, "timestamp": event.time, "data": event}).to_string();
        let id = format!("{}-{}", event.kind, event.number);
        let (began, mut attempt) = (Instant::now(), 0);
        loop {
            match self.receiver.send(&id, &body).await {
                Delivery::Taken => return self.counts.count_message(&self.name, "taken"),
                Delivery::Failed(why) if began.elapsed() >= RETRY_FOR => {
                    tracing::error!(webhook = self.name, number = event.number, why, "an event was given up");
                    return self.counts.count_message(&self.name, "given-up");
                }
                Delivery::Failed(why) => {
                    let pause = delivery::pause(attempt);
                    self.counts.count_message(&self.name, "failed");
                    tracing::warn!(webhook = self.name, number = event.number, why, ?pause, "an event was not taken");
                    // So a restart does not send again what was taken before.
                    self.save();
                    sleep(pause).await;
                    attempt += 1;
                }
            }
        }
    }

    fn from(&self) -> EventsFrom {
        self.place.number().map_or(self.wanted.from, EventsFrom::After)
    }

    fn save(&mut self) {
        if let Err(error) = self.place.save() {
            tracing::error!(webhook = self.name, %error, "the place of a webhook cannot be saved; events may come twice");
        }
    }
}

/// Runs all of them; they end when asked to stop.
pub(crate) fn spawn(
    hooks: Vec<Webhook>,
    cloud: &Cloud,
    stopping: &ShutdownToken,
) -> Arc<tokio_util::task::TaskTracker> {
    let tasks = Arc::new(tokio_util::task::TaskTracker::new());
    for hook in hooks {
        tasks.spawn(hook.run(cloud.clone(), stopping.clone()));
    }
    tasks.close();
    tasks
}

/// Before it logs in again.
const LOGIN_PAUSE: Duration = Duration::from_secs(5);
/// How long a logout may take.
const LOGOUT_MAX: Duration = Duration::from_secs(1);
/// How long one event is tried: longer than a night's repair would be too long for those behind it.
const RETRY_FOR: Duration = Duration::from_secs(6 * 3_600);
