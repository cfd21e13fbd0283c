//! Test vectors of logging in with a browser. A vector never changes without a new codec version.

use super::{Vectors, accounts::new_session, user};
use crate::message::login::{DeviceLogin, DeviceReply, DeviceRequest};

#[test]
fn the_words_of_a_login_with_a_browser_have_their_bytes() {
    let mut vectors = Vectors::of("login", include_str!("../../../tests/vectors/login.txt"));
    let login = DeviceLogin([5; 32]);
    compare!(vectors, DeviceRequest {
        "begin": DeviceRequest::Begin { .. } =>
            DeviceRequest::Begin { provider: Some("campus".into()), machine: "laptop".into() },
        "poll": DeviceRequest::Poll { .. } => DeviceRequest::Poll { login },
    });
    compare!(vectors, DeviceReply {
        "begun": DeviceReply::Begun { .. } => DeviceReply::Begun {
            login,
            user_code: "WDJB-MJHT".into(),
            verification_url: "https://login.example.org/device".into(),
            complete_url: Some("https://login.example.org/device?user_code=WDJB-MJHT".into()),
            interval_seconds: 5,
            lives_seconds: 600,
        },
        "pending": DeviceReply::Pending { .. } => DeviceReply::Pending { interval_seconds: 10 },
        "done": DeviceReply::Done { .. } => DeviceReply::Done { user: user(), session: new_session() },
    });
    vectors.finish();
}
