//! What is marked as slow, as JSON. It never decides what is slow: the master does.

use protocol::message::marks::{Mark, MarkState, MarkSubject};
use serde::Serialize;

use super::{NodeView, rfc3339_seconds};
use crate::NodeStatus;

/// A mark.
#[derive(Serialize)]
pub struct MarkView {
    /// `node NODE`, `disk NODE FOLDER` or `link SITE SITE`.
    pub what: String,
    /// `node`, `disk` or `link`.
    pub kind: &'static str,
    /// Of a node or a disk.
    pub node: Option<String>,
    /// Of a disk.
    pub folder: Option<String>,
    /// Of a link.
    pub sites: Option<[String; 2]>,
    /// `slow` or `ignored`.
    pub state: &'static str,
    /// The administrator who has decided it; null where it was measured.
    pub by: Option<String>,
    pub reason: String,
    pub since: String,
    /// When it ends without further evidence; null where an administrator has decided it.
    pub until: Option<String>,
}

impl From<&Mark> for MarkView {
    fn from(mark: &Mark) -> Self {
        let (node, folder, sites) = match mark.subject.clone() {
            MarkSubject::Node(node) => (Some(node.to_string()), None, None),
            MarkSubject::Disk { node, folder } => (Some(node.to_string()), Some(folder), None),
            MarkSubject::Link { a, b } => (None, None, Some([a, b])),
        };
        Self {
            what: mark.subject.to_string(),
            kind: mark.subject.kind(),
            node,
            folder,
            sites,
            state: mark.state.as_str(),
            by: mark.by.as_ref().map(ToString::to_string),
            reason: mark.reason.clone(),
            since: rfc3339_seconds(mark.since_unix_millis),
            until: mark.expires_unix_millis.map(rfc3339_seconds),
        }
    }
}

/// Nodes, each with what is marked as slow there.
pub fn marked_nodes(nodes: Vec<NodeStatus>, marks: &[Mark]) -> Vec<NodeView> {
    let slow_at = |id: &str| {
        let slow = marks.iter().filter(|mark| mark.state == MarkState::Slow);
        let here = slow.filter(|mark| match &mark.subject {
            MarkSubject::Node(node) | MarkSubject::Disk { node, .. } => node.as_str() == id,
            MarkSubject::Link { .. } => false,
        });
        here.map(|mark| match &mark.subject {
            MarkSubject::Disk { folder, .. } => format!("disk {folder}"),
            _ => "node".to_owned(),
        })
        .collect()
    };
    let view = |node: NodeStatus| {
        let view = NodeView::from(node);
        NodeView { slow: slow_at(&view.id), ..view }
    };
    nodes.into_iter().map(view).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn json_says_what_is_marked_in_words_and_in_parts() {
        let mark = Mark {
            subject: MarkSubject::Disk { node: "n1".parse().unwrap(), folder: "/srv/a".into() },
            state: MarkState::Slow,
            by: None,
            reason: "it takes long".into(),
            since_unix_millis: 0,
            expires_unix_millis: Some(1_000),
        };
        let json = serde_json::to_value(MarkView::from(&mark)).unwrap();
        assert_eq!((json["what"].as_str(), json["kind"].as_str()), (Some("disk n1 /srv/a"), Some("disk")));
        assert_eq!((json["folder"].as_str(), json["until"].as_str()), (Some("/srv/a"), Some("1970-01-01T00:00:01Z")));
        assert!(json["by"].is_null() && json["sites"].is_null());
    }
}
