//! Publishes that are refused, row by row.

use base64::Engine;

use super::*;

#[test]
fn no_key_in_a_path_is_logged() {
    let table = [
        ("/topics/orders-1/api/events", "/topics/orders-1/api/events"),
        ("/topics/orders:publish%3Faeg-sas-key=KEY", "/topics/orders:publish"),
        ("/topics/orders?aeg-sas-key=KEY", "/topics/orders"),
        ("/topics/\u{e9}=KEY", "/topics/"),
        ("", ""),
    ];
    for (path, want) in table {
        assert_eq!(loggable(path), want);
    }
}

#[tokio::test(start_paused = true)]
async fn refusals() {
    let good = || request(&events(1, 1));
    let bad_second = events(1, 1).replace(']', r#",{"id":"2"}]"#);
    let too_large = "x".repeat(1_048_577);
    let cloud = |body: &str, content_type| {
        with(to("/topics/clouds/api/events", request(body)), "content-type", content_type)
    };
    let table = [
        (404, "NotFound/RouteNotFound", "nothing is served", to("/topics/orders", good())),
        // A key after an encoded question mark must not be logged.
        (
            404,
            "NotFound/RouteNotFound",
            "nothing is served",
            to("/topics/orders%3Faeg-sas-key=Zmlyc3Q=", good()),
        ),
        (404, "NotFound/RouteNotFound", "POST", Request { method: Method::PUT, ..good() }),
        (404, "NotFound/TopicNotFound", "does not exist", to("/topics/other/api/events", good())),
        (
            404,
            "NotFound/TopicNotFound",
            "does not exist",
            to("/topics/or%20ers/api/events", good()),
        ),
        (404, "NotFound/TopicNotFound", "does not exist", to("/topics//api/events", good())),
        (404, "NotFound/TopicNotFound", "does not exist", to("/topics/other:publish", good())),
        (
            401,
            "Unauthorized/CredentialsMissing",
            "has no credentials",
            with(good(), "aeg-sas-key", ""),
        ),
        (401, "Unauthorized/KeyRefused", "not one of", with(good(), "aeg-sas-key", "Zmlyc3Q")),
        (
            401,
            "Unauthorized/TokenMalformed",
            "signature that is not base64",
            with(with(good(), "aeg-sas-key", ""), "aeg-sas-token", "r=a&e=b&s=c"),
        ),
        (
            401,
            "Unauthorized/LocalAuthDisabled",
            "disabled",
            to("/topics/closed/api/events", good()),
        ),
        // Without valid credentials, other problems are not reported.
        (401, "Unauthorized/KeyRefused", "", with(request("[{"), "aeg-sas-key", "no")),
        (401, "Unauthorized/KeyRefused", "", with(request(&too_large), "aeg-sas-key", "no")),
        (
            401,
            "Unauthorized/KeyRefused",
            "",
            with(to("/topics/spaces:publish", good()), "aeg-sas-key", "no"),
        ),
        (
            404,
            "NotFound/OtherPath",
            "kind 'custom'; publish to it with POST to /topics/orders/api/events",
            to("/topics/orders:publish", good()),
        ),
        (
            404,
            "NotFound/OtherPath",
            "kind 'namespace'; publish to it with POST to /topics/spaces:publish",
            to("/topics/spaces/api/events", good()),
        ),
        (413, "RequestEntityTooLarge/RequestTooLarge", "1048577 bytes", request(&too_large)),
        (400, "BadRequest/InputJsonInvalid", "index 0 is not valid JSON", request("[{")),
        (400, "BadRequest/InputJsonInvalid", "must be an array", request("{}")),
        (400, "BadRequest/InputJsonInvalid", "index 1: member 'subject'", request(&bad_second)),
        (400, "BadRequest/TooManyEvents", "more than 5000 events", request(&events(5_001, 0))),
        (
            400,
            "BadRequest/ContentTypeUnsupported",
            "takes application/json",
            with(good(), "content-type", "application/cloudevents+json"),
        ),
        (
            400,
            "BadRequest/ContentTypeUnsupported",
            "takes application/cloudevents+json",
            cloud("{}", "application/json"),
        ),
        (
            400,
            "BadRequest/InputHeaderInvalid",
            "header 'ce-id' is required",
            with(cloud("{}", "application/json"), "ce-specversion", "1.0"),
        ),
        (
            400,
            "BadRequest/InputJsonInvalid",
            "index 0: member 'id' is required",
            cloud("{}", "application/cloudevents+json"),
        ),
    ];
    for (status, code, text, request) in table {
        let fixture = Fixture::new(stored());
        let response = fixture.publish(&request).await;
        let row = format!("{} {}", request.path, response.body());
        assert_eq!(response.status().as_u16(), status, "{row}");
        let (got, message) = code_and_message(&response);
        assert_eq!(got, code, "{row}");
        assert!(message.contains(text), "{row}");
        assert!(!response.headers().contains_key("retry-after"), "{row}");
        assert_eq!(response.headers()["content-type"], "application/json; charset=utf-8");
        assert!(fixture.call_sizes().is_empty(), "{row}");
        let (error_type, error) = code.split_once('/').expect("two names");
        let want = format!("PublishFailCount ErrorType={error_type},Error={error} 1");
        assert_eq!(fixture.counts(), [want], "{row}");
    }
}

/// API Gateway's event for a row of `refused_publishes.json`, with the defaults of a good publish.
fn gateway_event(row: &Value) -> Value {
    let text = |name: &str| row[name].as_str();
    let to = text("to").unwrap_or("orders");
    let (path, content_type, good) = match to {
        "orders" => ("/topics/orders/api/events", "application/json", events(1, 1)),
        "own" => ("/topics/own/api/events", "application/json", r#"{"path":"p"}"#.to_owned()),
        "clouds" => ("/topics/clouds/api/events", "application/cloudevents+json", cloud_event()),
        "spaces" => ("/topics/spaces:publish", "application/cloudevents+json", cloud_event()),
        other => panic!("no such topic: {other}"),
    };
    let mut headers = json!({"content-type": content_type, "aeg-sas-key": "Zmlyc3Q="});
    let headers_of_row = row["headers"].as_object().into_iter().flatten();
    for (name, value) in headers_of_row {
        let headers = headers.as_object_mut().expect("an object");
        match value {
            Value::Null => headers.remove(name),
            value => headers.insert(name.clone(), value.clone()),
        };
    }
    let body = match (text("body"), text("hex"), row["repeat"].as_array()) {
        (Some(body), None, None) => body.as_bytes().to_vec(),
        (None, Some(hex), None) => {
            let digits = hex.as_bytes().chunks(2);
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            digits.map(|pair| byte(pair).expect("two digits")).collect()
        }
        (None, None, Some(parts)) => {
            let part = |index: usize| parts[index].as_str().expect("a text");
            let count = usize::try_from(parts[2].as_u64().expect("a count")).expect("small");
            format!("{}{}{}", part(0), part(1).repeat(count), part(3)).into_bytes()
        }
        (None, None, None) => good.into_bytes(),
        _ => panic!("a row has more than one body: {row}"),
    };
    json!({
        "rawPath": text("path").unwrap_or(path),
        "rawQueryString": text("query").unwrap_or_default(),
        "headers": headers,
        "requestContext": {"http": {"method": text("method").unwrap_or("POST")}},
        "body": base64::engine::general_purpose::STANDARD.encode(body),
        "isBase64Encoded": true,
    })
}

fn cloud_event() -> String {
    r#"{"id":"1","source":"/s","type":"T","specversion":"1.0"}"#.to_owned()
}

pub(super) async fn publish_row(row: &Value) -> (Fixture, Response<String>) {
    let fixture = Fixture::new(stored());
    let response = fixture.publish_event(gateway_event(row)).await;
    (fixture, response)
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_no_base64_is_refused() {
    let fixture = Fixture::new(stored());
    let mut event = gateway_event(&json!({"to": "orders"}));
    event["body"] = json!("?");
    let response = fixture.publish_event(event).await;
    assert_eq!(response.status(), 400);
    let body: Value = serde_json::from_str(response.body()).expect("JSON");
    assert_eq!(body["error"]["details"][0]["code"], "InputJsonInvalid");
    assert_eq!(fixture.call_sizes(), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn every_request_of_the_table_is_refused_and_leaves_nothing_behind() {
    // The defaults of rows are accepted.
    for to in ["orders", "own", "clouds", "spaces"] {
        let (fixture, response) = publish_row(&json!({"to": to})).await;
        assert_eq!((response.status().as_u16(), fixture.call_sizes()), (200, vec![1]), "{to}");
    }
    let table = include_str!("../../../../../tests/conformance/refused_publishes.json");
    let table: Value = serde_json::from_str(table).expect("JSON");
    let rows = table["requests"].as_array().expect("rows");
    let mut problems = Vec::new();
    for row in rows {
        let (fixture, response) = publish_row(row).await;
        let (code, message) = code_and_message(&response);
        let as_wanted = response.status().as_u16() == row["status"]
            && code == row["error"]
            && row["says"].as_str().is_some_and(|text| message.contains(text));
        if !as_wanted {
            problems.push(format!(
                "{}: {} {code} {message}",
                row["name"],
                response.status().as_u16()
            ));
        }
        let nothing_left = fixture.call_sizes().is_empty()
            && fixture.counts().iter().all(|count| count.starts_with("PublishFailCount"));
        assert!(nothing_left && !response.headers().contains_key("retry-after"), "{}", row["name"]);
        assert!(response.body().len() < 2_000, "{}: the answer is long", row["name"]);
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    assert!(rows.len() > 150, "{} rows", rows.len());
}

/// Requests as API Gateway and function URLs send them, payload format 2.0: without an authorizer's
/// word, with a principal of IAM, with the bearer of a token. Source: Amazon API Gateway, "AWS Lambda
/// proxy integrations for HTTP APIs"; AWS Lambda, "Function URLs: request payload format".
#[tokio::test(start_paused = true)]
async fn who_may_publish_is_read_from_the_request_that_the_gateway_sends() {
    let iam = json!({"iam": {
        "accessKey": "AKIAIOSFODNN7EXAMPLE", "accountId": "111122223333", "callerId": "A:x",
        "cognitoIdentity": null, "principalOrgId": "o-1", "userId": "A:x",
        "userArn": "arn:aws:iam::111122223333:user/example-user",
    }});
    let jwt = json!({"jwt": {"claims": {"iss": "https://login.example.com", "aud": "gridpost"},
        "scopes": null}});
    let lambda = json!({"lambda": {"iam": true, "jwt": "x"}});
    let passed = [Value::Null, json!({}), lambda, json!({"iam": null, "jwt": null}), iam, jwt];
    let table = [
        // Keys are required, whatever the authorizer.
        ("KEYS", [401, 401, 401, 401, 401, 401]),
        ("AWS_IAM", [401, 401, 401, 401, 200, 401]),
        ("JWT", [401, 401, 401, 401, 401, 200]),
    ];
    for (setting, wanted) in table {
        let mut fixture = Fixture::new(stored());
        fixture.context.authorization = setting.parse().expect("a way to authorize");
        for (authorizer, want) in passed.iter().zip(wanted) {
            for route in ["POST /topics/{topic}/api/events", "$default"] {
                let event = json!({
                    "version": "2.0", "routeKey": route, "rawPath": "/topics/orders/api/events",
                    "rawQueryString": "", "headers": {"content-type": "application/json"},
                    "requestContext": {
                        "accountId": "111122223333", "apiId": "api1", "routeKey": route,
                        "stage": "$default", "authorizer": authorizer,
                        "http": {"method": "POST", "path": "/topics/orders/api/events"},
                    },
                    "body": events(1, 1), "isBase64Encoded": false,
                });
                let status = fixture.publish_event(event).await.status().as_u16();
                assert_eq!(status, want, "{setting} {route} {authorizer}");
            }
        }
    }
    for none in ["", "keys", "IAM", "NONE"] {
        assert!(none.parse::<Authorization>().is_err(), "{none}");
    }
}
