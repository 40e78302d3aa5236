//! Bugs in the deployment, for Terraform's tests to notice.

use super::Mutation;

/// All of them.
pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "dispatch may read access keys",
        file: "infra/dispatch.tf",
        old: r#"      leading_keys = ["TOPIC#*"]"#,
        new: r#"      leading_keys = ["TOPIC#*", "KEYS#*"]"#,
    },
    Mutation {
        name: "wake may delete payloads",
        file: "infra/wake.tf",
        old: r#"      actions   = ["s3:PutObject"]"#,
        new: r#"      actions   = ["s3:PutObject", "s3:DeleteObject"]"#,
    },
    Mutation {
        name: "anybody may publish where tokens are asked for",
        file: "infra/publish_api.tf",
        old: r#"authorization_type = var.publish_authorization == "KEYS" ? "NONE" : var.publish_authorization"#,
        new: r#"authorization_type = var.publish_authorization == "AWS_IAM" ? "AWS_IAM" : "NONE""#,
    },
];
