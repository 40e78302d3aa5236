//! Examples that `--help` shows, by command.

/// Each command with lines that show what it is for, without `gridpost` before them.
pub const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "dev",
        &[
            "dev",
            "dev --memory --quiet --config topics.toml",
            "dev --speed 60 --data /tmp/orders --port 7071",
            "dev --tls",
        ],
    ),
    (
        "wait",
        &[
            "wait --topic orders --delivered 10",
            "wait --topic orders --subscription billing --delivered 10 --dead-lettered 1 --timeout 2m",
        ],
    ),
    (
        "console",
        &["console", "console --read-only", "console --deployment prod --port 7080 --no-browser"],
    ),
    (
        "export",
        &[
            "export > topics.json",
            "export --topic orders --with-secrets",
            "export --terraform gridpost-on-aws",
        ],
    ),
    (
        "apply",
        &[
            "apply topics.json",
            "apply topics.json --deployment prod --bucket gridpost=prod-letters",
        ],
    ),
    ("up", &["up", "up --no-demo", "up --release", "up --artefacts ."]),
    (
        "verify",
        &[
            "verify",
            "verify --only webhook,retry,dead-letter",
            "verify --queue arn:aws:sqs:eu-central-1:123456789012:gridpost-verify --deployment prod",
        ],
    ),
    ("watch", &["watch", "watch --port 9002"]),
    ("status", &["status", "status --json"]),
    ("down", &["down", "down --purge"]),
    (
        "topic",
        &[
            "topic create orders",
            "topic create orders --schema CloudEventSchemaV1_0",
            "topic keys orders --regenerate key2",
            "topic list --deployment prod",
        ],
    ),
    (
        "subscription",
        &[
            "subscription create --topic orders --name billing --endpoint https://billing.example/hook",
            "subscription create --topic orders --name billing --file billing.json",
            "subscription update --topic orders --name billing --secret-header X-Key=secret",
            "subscription health",
            "subscription health --since 24h",
            "subscription health --topic orders --name billing",
            "subscription send-test --topic orders --name billing",
            "subscription test-endpoint --topic orders --name billing",
            "subscription list --topic orders --json",
        ],
    ),
    (
        "poison",
        &[
            "poison list",
            "poison resend --all",
            "poison purge 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --yes",
        ],
    ),
    (
        "parked",
        &[
            "parked list --topic orders",
            "parked release --topic orders --subscription billing",
            "parked cancel 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        ],
    ),
    (
        "dead-letter",
        &[
            "dead-letter list --topic orders --since 2h --reason TimeToLiveExceeded",
            "dead-letter summary --topic orders --open",
            "dead-letter export --topic orders --open --to-file letters.jsonl",
            "dead-letter redrive --topic orders --subscription billing --dry-run",
            "dead-letter redrive --topic orders --subscription billing --rate 50",
            "dead-letter purge --topic orders --to 2026-01-01T00:00:00Z --yes",
        ],
    ),
    (
        "delivery",
        &[
            "delivery list --topic orders",
            "delivery list --topic orders --subscription billing --outcome Busy",
            "delivery list --limit 1000 --json",
            "delivery show 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --topic orders --subscription billing",
            "delivery resend 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --topic orders --subscription billing",
        ],
    ),
    (
        "explain",
        &[
            "explain order-4711 --topic orders",
            "explain order-4711 --topic orders --event event.json --since 7d",
        ],
    ),
    ("tail", &["tail", "tail --topic orders --name billing --failed", "tail --since 10m --json"]),
    (
        "publish",
        &[
            "publish --topic orders --type Order.Placed --subject orders/1 --data '{\"total\": 12}'",
            "publish --topic orders --file events.json",
        ],
    ),
    (
        "sas",
        &["sas --resource https://events.example/topics/orders/api/events --key KEY --lasts 24h"],
    ),
    (
        "audit",
        &["audit", "audit --topic orders --since 90m --wait 30", "audit --deployment prod --json"],
    ),
    (
        "prober",
        &[
            "prober",
            "prober --rate 50 --for 10m --deployment prod --port 9000 --endpoint https://tunnel.example/prober",
        ],
    ),
    (
        "rollout",
        &[
            "rollout --deployment prod --dry-run",
            "rollout --deployment prod --step 10 --every 5",
            "rollout --deployment prod --function dispatch=7 --step 100",
            "rollout --deployment prod --revert",
        ],
    ),
    (
        "deployment",
        &[
            "deployment add prod --terraform infra/deploy --aws-profile prod-admin",
            "deployment add prod --manage-url https://a1.execute-api.eu-north-1.amazonaws.com",
            "deployment list",
            "topic list --deployment prod",
        ],
    ),
    (
        "completion",
        &[
            "completion bash > ~/.local/share/bash-completion/completions/gridpost",
            "completion fish > ~/.config/fish/completions/gridpost.fish",
        ],
    ),
    ("listen", &["listen", "listen --port 9000 --answer 500,500,200 --delay 2s"]),
    (
        "schedule",
        &[
            "schedule --ttl 30m --max-attempts 10",
            "schedule --profile namespace --responses 500,408,200",
            "schedule --topic orders --name billing",
        ],
    ),
    (
        "cost",
        &[
            "cost",
            "cost --front-door function-url --events-per-publish 10",
            "cost month",
            "cost month --topics 10 --event-subscriptions 50 --events 1000000",
        ],
    ),
    (
        "doctor",
        &[
            "doctor --plan plan.json",
            "doctor --plan plan.json --account-concurrency 10",
            "doctor --plan plan.json --account",
        ],
    ),
];
