//! Publishes that are accepted, row by row.

use super::{refusals::publish_row, *};

#[tokio::test(start_paused = true)]
async fn every_request_of_the_table_is_accepted_and_its_events_go_out() {
    let table = include_str!("../../../../../tests/conformance/accepted_publishes.json");
    let table: Value = serde_json::from_str(table).expect("JSON");
    for row in table["requests"].as_array().expect("rows") {
        let name = row["name"].as_str().expect("a name");
        let (fixture, response) = publish_row(row).await;
        assert_eq!(response.status().as_u16(), 200, "{name}: {}", response.body());
        let deliveries = fixture.deliveries();
        let found: Vec<_> = deliveries.iter().map(|one| one.events()[0].get()).collect();
        assert_eq!(json!(found), row["delivers"], "{name}");
    }
}
