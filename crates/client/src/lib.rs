//! The library for people's programs and gateways. A [`Cloud`] holds what its users share: a port for messages, and
//! connections to nodes. A [`Client`] is the session of one user, cheap to clone and safe to share between tasks.
//! Then come one file ([`mod@file`]), many files ([`tree`]) and Sphere jobs ([`job`]). It never knows how master or node
//! work inside.

pub mod admin;
pub mod cloud;
pub mod error;
pub mod file;
pub mod job;
pub mod names;
pub mod session;
pub mod throttle;
pub mod tree;
pub mod views;

pub use admin::{
    admission::{self, AdmittedMachine, Decision, Newcomer, TrustAnchor},
    audit, events, import,
};
pub use cloud::{Cloud, CloudSettings, peers_file};
pub use error::{ClientError, reason_of};
pub use file::{
    checksummed_file::{ChecksummedFile, UnreadableBytes},
    get::GetOptions,
    local_target::LocalTarget,
    put::PutOptions,
    reader::FileReader,
    stream::FileStream,
    writer::FileWriter,
};
pub use names::{expand, namespace};
pub use protocol::{
    Acl, AclEntry, AddressRange, CarrierChoice, ControllerKind, CredentialId, HostAddress, JobId, NodeId, Policy,
    Principal, Priority, Reason, RecordFraming, Refusal, Rights, SectorPath, Status, UserName,
    message::{
        access::AclStatus,
        accounts::{
            AccessKeyOwner, GroupStatus, NewAccessKey, NewSession, NewUser, Password, SessionStatus, TokenStatus,
            UserChange, UserStatus, is_access_key_id,
        },
        byte_runs::ByteRuns,
        client_master::{
            Condition, CopyState, CopyStatus, Entry, EntryKind, EntryStatus, FileContent, FileVersion, Health,
            JobRecord, JobState, NodeState, NodeStatus, OpenLease, PolicyStatus, QuotaOf, QuotaStatus, StageRecord,
            TrashItem, Usage,
        },
        cluster::{
            Membership, MovePlan, NodeRemoval, PlannedMove, RebalanceStatus, RebalanceVerb, RemoveNodeRequest,
            TopologyStatus,
        },
        events::{CloudEvent, EventFields, EventGap, EventKind, EventSubject},
        history::{AttemptEnd, AttemptRecord, JobHistory, JobLogs, NodeMarks, SegmentLog},
        links::{LinkPage, LinkRates, LinkSeries, MeasuredLink},
        load::{DiskLoad, LoadMetric, LoadPage, LoadSample, LoadSeries, LoadUnit, MachineSize, NodeLoad, ProcessLoad},
        marks::{Mark, MarkChange, MarkState, MarkSubject},
        master_security::KnownUser,
        request::{EventsFrom, MetricsSource},
        work::{WorkFault, WorkItem, WorkKind, WorkRow, WorkState},
    },
    topology::Distance,
};
pub use session::{BrowserLogin, Client, Delay, LeaseWait, LoginTarget, Profile, login};
pub use throttle::Throttle;
