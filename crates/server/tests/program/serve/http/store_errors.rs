//! Store errors: the response has the kind, and the log has the details.

use serde_json::json;

use super::{LIMITS, TempFile, post};
use crate::serve::program::Program;

/// The table is gone, which SQLite reports with the path of its file.
#[tokio::test]
async fn responses_about_a_broken_store_name_no_path() {
    let (config, database) =
        (TempFile::new(&format!("[defaults]\non_store_error = \"closed\"\n{LIMITS}")), TempFile::new(""));
    let program = Program::start(&["--config", config.path(), "--store", &format!("sqlite:{}", database.path())]);
    let limit = r#"{"limit":"two","key":"u"}"#;
    assert_eq!(post(&program, "/v1/limit", limit).await.0, 200);
    rusqlite::Connection::open(database.path())
        .and_then(|file| file.execute_batch("DROP TABLE tidegate"))
        .expect("dropped");

    let (status, problem) = post(&program, "/v1/limit", limit).await;
    assert_eq!((status.as_u16(), &problem["detail"]), (503, &json!("store unavailable")));
    let quota = r#"{"algorithm":"token_bucket","rate":10,"period_us":1000000}"#;
    let request = format!(r#"{{"limit":"a","key":"u","op":"limit","cost":1,"quota":{quota}}}"#);
    let (status, answer) = post(&program, "/v1/apply", &format!(r#"{{"mode":"each","requests":[{request}]}}"#)).await;
    assert_eq!((status.as_u16(), &answer["decisions"][0]["error"]["kind"]), (200, &json!("unavailable")));
    for body in [problem, answer] {
        assert!(!body.to_string().contains(database.path()), "{body}");
    }
    let event = program.wait_for_event("the store cannot decide");
    assert!(event["error"].as_str().is_some_and(|error| error.contains(database.path())), "{event}");
}
