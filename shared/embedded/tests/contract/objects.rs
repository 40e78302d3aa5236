//! Dead letters, payloads, and removal by age.

use std::{fs, path::Path, time::Duration};

use gridpost_core::{
    delivery::dead_letter::{Labels, Origin},
    event::DeliverySchema,
    time::Timestamp,
};
use gridpost_embedded::Letters;
use gridpost_ports::{
    Bucket, BucketError, Clock, DeadLetters, DeliveryStates, EndpointHealths, Payloads,
    RequestRates,
};
use gridpost_testkit::contract::{self, BUCKET};
use uuid::Uuid;

use super::fixture::Fixture;

const DAY_S: u64 = 24 * 60 * 60;

#[tokio::test]
async fn payloads_are_found_by_name() {
    for fixture in Fixture::both() {
        let payloads = fixture.stores.payloads();
        contract::objects::an_object_that_is_not_there_is_none(&*payloads).await;
        contract::objects::payloads_are_found_by_name(&*payloads).await;
        fixture.stores.close().await;
        contract::objects::an_object_that_is_refused_is_an_error(&*payloads).await;
    }
    let fixture = Fixture::on_disk();
    fixture.tamper("ALTER TABLE payloads RENAME TO gone");
    contract::objects::an_object_that_is_refused_is_an_error(&*fixture.stores.payloads()).await;
}

#[tokio::test]
async fn buckets_tell_what_is_missing_from_what_is_refused() {
    for fixture in Fixture::both() {
        let letters = fixture.stores.letters();
        contract::objects::a_missing_bucket_is_not_found(&*letters).await;
        letters.create(BUCKET).await.expect("made");
        fixture.stores.close().await;
        contract::objects::a_bucket_that_refuses_is_unavailable(&*letters).await;
    }
}

#[tokio::test]
async fn a_file_that_can_not_be_written_is_no_missing_bucket() {
    let fixture = Fixture::on_disk();
    let letters = fixture.stores.letters();
    letters.create(BUCKET).await.expect("made");
    // A folder is in the file's place, and was before.
    fs::create_dir_all(letters.folder().expect("a folder").join(BUCKET).join("k/below"))
        .expect("made");
    let labels = Labels::default();
    let put = letters.put(BUCKET, "k", &labels, b"[]".to_vec()).await;
    assert!(matches!(put, Err(BucketError::Unavailable(_))), "{put:?}");
    let got = letters.get(BUCKET, "k").await;
    assert!(matches!(got, Err(BucketError::Unavailable(_))), "{got:?}");
    let put = letters.put("..", "k", &labels, b"[]".to_vec()).await;
    assert!(matches!(put, Err(BucketError::NotFound)), "{put:?}");
}

#[tokio::test]
async fn buckets_are_made_where_that_is_asked_for() {
    for fixture in Fixture::both() {
        let fixture = fixture.set(|options| options.makes_buckets = true).await;
        let letters = fixture.stores.letters();
        letters.put(BUCKET, "k", &Labels::default(), b"[]".to_vec()).await.expect("stored");
        let got = letters.get(BUCKET, "k").await.expect("readable");
        assert_eq!(got, Some((b"[]".to_vec(), None)), "it says nothing of whose it is");
    }
}

fn origin() -> Origin {
    Origin { subscription: contract::key(), schema: DeliverySchema::EventGridSchema }
}

async fn names(letters: &Letters, prefix: &str, after: Option<&str>) -> Vec<String> {
    let listed = letters.list(BUCKET, prefix, after).await.expect("a list");
    listed.into_iter().map(|object| object.name).collect()
}

#[tokio::test]
async fn buckets_keep_what_was_stored() {
    for fixture in Fixture::both() {
        let letters = fixture.stores.letters();
        letters.create(BUCKET).await.expect("made");
        letters.create("other").await.expect("made");
        letters.put("other", "x", &Labels::default(), vec![]).await.expect("stored");
        contract::objects::dead_letters_are_listed_by_name(&*letters).await;
        contract::objects::a_name_is_no_path(&*letters).await;
        contract::objects::a_list_has_a_thousand_names_at_most(&*letters).await;
        let others = letters.list("other", "", None).await.expect("a list");
        assert_eq!(others.len(), 1, "a bucket has its own objects");
        letters.put(BUCKET, "k", &Labels::default(), vec![]).await.expect("stored");
        let listed = letters.list(BUCKET, "k", None).await.expect("a list");
        assert_eq!(listed[0].written_at, fixture.clock.now());
    }
}

#[tokio::test]
async fn parts_may_be_longer_than_the_name_of_a_file() {
    for fixture in Fixture::both() {
        let letters = fixture.stores.letters();
        letters.create(BUCKET).await.expect("made");
        let long = "p".repeat(264);
        // By bytes: names that are cut are among the others.
        let all = [
            "%".repeat(200) + "/S/a.json",
            "%".repeat(200) + "x/S/a.json",
            "p".repeat(200) + "/S/a.json",
            "p".repeat(243) + "/S/a.json",
            format!("{long}-1/S/a.json"),
            format!("{long}/S/{long}"),
            format!("{long}/S/{long}.json"),
            "p".repeat(300),
            "p".repeat(243) + "q/S/a.json",
        ];
        assert!(all.is_sorted());
        for name in all.iter().rev() {
            let labels = origin().labels();
            letters.put(BUCKET, name, &labels, name.as_bytes().to_vec()).await.expect("stored");
        }
        assert_eq!(names(&letters, "", None).await, all);
        for (at, name) in all.iter().enumerate() {
            assert_eq!(names(&letters, "", Some(name.as_str())).await, all[at + 1..], "{at}");
        }
        assert_eq!(names(&letters, &"p".repeat(250), None).await, all[4..8]);
        assert_eq!(names(&letters, &format!("{long}/"), None).await, all[5..7]);
        for name in &all {
            let got = letters.get(BUCKET, name).await.expect("readable");
            assert_eq!(got, Some((name.as_bytes().to_vec(), Some(origin()))), "{name}");
            letters.delete(BUCKET, name).await.expect("deleted");
        }
        assert!(names(&letters, "", None).await.is_empty());
    }
}

#[tokio::test]
async fn dead_letters_are_files_that_anybody_can_open() {
    let fixture = Fixture::on_disk();
    let letters = fixture.stores.letters();
    letters.create(BUCKET).await.expect("made");
    letters.put(BUCKET, "T/S/a.json", &origin().labels(), b"[1]".to_vec()).await.expect("stored");
    let folder = letters.folder().expect("a folder").to_owned();
    assert_eq!(folder, fixture.folder().join("dead-letters"));
    let file = folder.join(BUCKET).join("T/S/a.json");
    assert_eq!(fs::read(&file).expect("a file"), b"[1]");
    // Users may add and remove files.
    fs::write(folder.join(BUCKET).join("T/S/b.json"), b"[2]").expect("written");
    fs::remove_file(file).expect("removed");
    assert_eq!(names(&letters, "T/S/", None).await, ["T/S/b.json"]);
    let got = letters.get(BUCKET, "T/S/b.json").await.expect("readable");
    assert_eq!(got, Some((b"[2]".to_vec(), None)));
    assert_eq!(letters.get(BUCKET, "T/S/a.json").await.expect("readable"), None);
    assert!(!has_unfinished(&folder), "what was written is whole");
}

/// The name of a dead letter as the pipeline writes it, in one hour.
fn letter(number: u128) -> String {
    // Spread as a hash is.
    let id = Uuid::from_u128(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
    format!("T/S/1970/1/1/0/{id}.json")
}

#[tokio::test]
async fn no_folder_has_all_dead_letters_of_an_hour() {
    let fixture = Fixture::on_disk();
    let letters = fixture.stores.letters();
    letters.create(BUCKET).await.expect("made");
    let mut all: Vec<_> = (0..3_000).map(letter).collect();
    for name in &all {
        letters.put(BUCKET, name, &origin().labels(), b"[]".to_vec()).await.expect("stored");
    }
    let hour = letters.folder().expect("a folder").join(BUCKET).join("T/S/1970/1/1/0");
    let most = fs::read_dir(&hour).expect("a folder").map(|folder| {
        let folder = folder.expect("an entry").path();
        fs::read_dir(folder).expect("a folder").count()
    });
    let folders: Vec<_> = most.collect();
    assert!(folders.len() <= 256 && *folders.iter().max().expect("one") < 40, "{folders:?}");
    // One that was copied to where its key says, and one that is in both places.
    for number in [0, 5_000] {
        fs::write(hour.join(letter(number).rsplit('/').next().expect("a name")), "[1]")
            .expect("written");
    }
    all.push(letter(5_000));
    all.sort_unstable();
    let mut listed: Vec<String> = Vec::new();
    loop {
        let page = names(&letters, "T/S/", listed.last().map(String::as_str)).await;
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    assert_eq!(listed, all);
    let body = async |number| letters.get(BUCKET, &letter(number)).await.expect("readable");
    assert_eq!(body(0).await, Some((b"[]".to_vec(), Some(origin()))), "ours before a copy");
    assert_eq!(body(5_000).await, Some((b"[1]".to_vec(), None)));
    for name in &all {
        letters.delete(BUCKET, name).await.expect("deleted");
    }
    assert_eq!((body(0).await, body(5_000).await), (None, None));
    let bucket = letters.folder().expect("a folder").join(BUCKET);
    assert_eq!(fs::read_dir(bucket).expect("it stays").count(), 0, "empty folders are gone");
}

#[tokio::test(start_paused = true)]
async fn old_dead_letters_and_labels_without_a_file_are_removed() {
    for fixture in Fixture::both() {
        let letters = fixture.stores.letters();
        letters.create(BUCKET).await.expect("made");
        let put = async |name: &str| {
            letters.put(BUCKET, name, &origin().labels(), b"[]".to_vec()).await.expect("stored");
        };
        put(&letter(1)).await;
        put("by-hand.json").await;
        fixture.clock.pass_s(2 * DAY_S);
        put(&letter(2)).await;
        letters.sweep(None).await.expect("swept");
        assert_eq!(names(&letters, "", None).await.len(), 3, "kept without a retention");
        letters.sweep(Some(Duration::from_secs(2 * DAY_S))).await.expect("swept");
        assert_eq!(names(&letters, "", None).await.len(), 3, "not older yet");
        letters.sweep(Some(Duration::from_secs(2 * DAY_S - 1))).await.expect("swept");
        assert_eq!(names(&letters, "", None).await, [letter(2)]);
        let Some(folder) = letters.folder() else { continue };
        assert_eq!(fixture.rows_of("labels"), 1);
        fs::remove_dir_all(folder.join(BUCKET).join("T")).expect("removed by hand");
        letters.sweep(None).await.expect("swept");
        assert_eq!(fixture.rows_of("labels"), 1, "its file might still be written");
        fixture.clock.pass_s(2 * DAY_S);
        letters.sweep(None).await.expect("swept");
        assert_eq!(fixture.rows_of("labels"), 0);
    }
}

#[tokio::test]
async fn what_has_expired_does_not_pile_up() {
    let fixture = Fixture::on_disk();
    fixture.tamper(
        "WITH RECURSIVE numbers (number) AS \
         (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 5000) \
         INSERT INTO states (id, revision, expires_at, document) \
         SELECT CAST(number AS BLOB), 1, 0, '{}' FROM numbers",
    );
    assert_eq!(fixture.rows_of("states"), 5_000);
    for _ in 0..60 {
        fixture.stores.payloads().put("deliveries/8", vec![1]).await.expect("written");
        fixture.clock.pass_s(1);
    }
    assert_eq!(fixture.rows_of("states"), 0);
}

fn has_unfinished(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").any(|entry| {
        let entry = entry.expect("an entry");
        let is_unfinished = entry.file_name().to_string_lossy().starts_with('.');
        is_unfinished || (entry.path().is_dir() && has_unfinished(&entry.path()))
    })
}

#[tokio::test]
async fn what_says_nothing_any_more_is_removed() {
    for fixture in Fixture::both() {
        let (tables, payloads) = (fixture.stores.tables(), fixture.stores.payloads());
        let state = contract::state(7);
        let (key, uid) = (contract::key(), Uuid::from_u128(5));
        let now = fixture.clock.now();
        let state = gridpost_core::delivery::state::DeliveryState { publish_time: now, ..state };
        DeliveryStates::save(&*tables, &state).await.expect("written");
        payloads.put("deliveries/7", vec![1]).await.expect("written");
        RequestRates::count(&*tables, uid, now.as_minutes(), 3).await.expect("counted");
        let load = || DeliveryStates::load(&*tables, Uuid::from_u128(7));
        let lives_for = state.forget_at().since(now).as_secs();
        fixture.clock.pass_s(lives_for - 1);
        let health = EndpointHealths::load(&*tables, &key, uid).await.expect("readable");
        EndpointHealths::save(&*tables, &key, uid, &health).await.expect("written");
        assert!(load().await.expect("readable").is_some());
        assert!(payloads.get("deliveries/7").await.expect("readable").is_some());
        let counted = RequestRates::count(&*tables, uid, now.as_minutes(), 1).await;
        assert_eq!(counted.expect("counted"), 1, "the minute's count has expired");
        fixture.clock.pass_s(30 * DAY_S);
        payloads.put("deliveries/8", vec![1]).await.expect("written");
        assert_eq!(load().await.expect("readable"), None);
        let old = || payloads.get("deliveries/7");
        assert!(old().await.expect("readable").is_some(), "it may be waited for");
        for _ in 0..=48 {
            fixture.clock.pass_s(30 * 60);
            payloads.put("deliveries/8", vec![1]).await.expect("written");
        }
        assert_eq!(old().await.expect("readable"), None);
        assert!(payloads.get("deliveries/8").await.expect("readable").is_some());
        assert!(fixture.clock.now() > Timestamp::from_millis(0));
    }
}
