//! All cases, grouped by what they are about.

pub mod audit;
pub mod aws_resources;
pub mod aws_sources;
pub mod batches;
pub mod cargo_lambda;
pub mod changing;
pub mod chaos;
pub mod clients;
pub mod crash;
pub mod dead_letters;
pub mod deployments;
pub mod handshakes;
pub mod infrastructure;
pub mod javascript;
pub mod neighbours;
pub mod operating;
pub mod pausing;
pub mod probation;
pub mod publishing;
pub mod quotas;
pub mod receivers;
pub mod redrive;
pub mod refusals;
pub mod release;
pub mod repeats;
pub mod resources;
pub mod retrying;
pub mod terraform;
pub mod upgrade;
pub mod verify;
pub mod waiting;

use super::{
    case::{Case, Phase},
    needs::{
        Needs::{self, Nothing},
        Program,
    },
};

const PYTHON: Needs = Needs::Program(Program::Python);
const NODE: Needs = Needs::Program(Program::Node);
const CURL: Needs = Needs::Program(Program::Curl);

const CARGO_LAMBDA: Needs = Needs::Aws("cargo-lambda, and the functions' queues");
const EMULATOR: Needs = Needs::Aws("the emulator itself");
const KILLED: Needs = Needs::Aws("functions that are processes of their own, to be killed");
const LOGS: Needs = Needs::Aws("metrics, which are lines of the functions' logs");
const PAYLOADS: Needs = Needs::Aws("the bucket of payloads, and the stack's low limit for it");
const PERMISSIONS: Needs = Needs::Aws("IAM");
const QUEUES: Needs = Needs::Aws("queues that others can send to");
const RELEASE: Needs = Needs::Aws("a release, and an emulator of its own");
const RESOURCES: Needs = Needs::Aws("AWS resources as endpoints");
const TERRAFORM: Needs = Needs::Aws("Terraform");

/// Names a case by its function.
macro_rules! case {
    ($phase:ident, $needs:ident, $module:ident :: $name:ident) => {
        Case {
            name: concat!(stringify!($module), "::", stringify!($name)),
            phase: Phase::$phase,
            needs: $needs,
            run: |fixture| Box::pin(async move { $module::$name(&fixture).await }),
        }
    };
}

/// All cases, the longest ones first.
pub fn all() -> Vec<Case> {
    vec![
        case!(Together, RESOURCES, verify::a_deployment_is_proven_with_a_queue),
        case!(Together, Nothing, retrying::a_late_success_cancels_the_retry),
        case!(Together, Nothing, probation::ten_failures_in_a_row_delay_delivery),
        case!(Together, Nothing, pausing::what_a_pause_holds_comes_back),
        case!(Together, Nothing, retrying::a_failing_webhook_sees_the_schedule),
        case!(Together, Nothing, retrying::two_failures_then_success),
        case!(Together, Nothing, probation::a_busy_answer_holds_everything_ten_seconds),
        case!(Together, Nothing, retrying::an_own_schedule_is_kept),
        case!(Together, Nothing, audit::a_ledger_balances_over_every_kind_of_end),
        case!(Together, Nothing, retrying::the_last_attempt_ends_delivery),
        case!(Together, RESOURCES, aws_resources::a_queue_gets_messages),
        case!(Together, RESOURCES, aws_resources::a_fifo_queue_gets_groups),
        case!(Together, RESOURCES, aws_resources::a_topic_gets_messages),
        case!(Together, RESOURCES, aws_resources::a_stream_gets_records),
        case!(Together, RESOURCES, aws_resources::a_bus_gets_events),
        case!(Together, RESOURCES, aws_resources::a_function_is_invoked),
        case!(Together, RESOURCES, aws_resources::an_arn_outside_the_allowance_is_refused),
        case!(
            Together,
            Nothing,
            dead_letters::a_bad_request_becomes_a_dead_letter_in_event_grid_schema
        ),
        case!(
            Together,
            Nothing,
            dead_letters::a_bad_request_becomes_a_dead_letter_in_cloud_events_schema
        ),
        case!(
            Together,
            Nothing,
            batches::a_refused_batch_is_split_until_its_bad_event_stands_alone
        ),
        case!(Together, Nothing, batches::an_answer_tells_the_events_of_a_batch_apart),
        case!(Together, Nothing, dead_letters::a_large_event_is_sent_and_dead_lettered_whole),
        case!(Together, Nothing, dead_letters::without_a_destination_events_are_dropped_and_logged),
        case!(Together, Nothing, redrive::dead_letters_are_seen_sent_again_and_purged),
        case!(Together, Nothing, redrive::a_topic_is_told_of_dead_letters),
        case!(Together, QUEUES, waiting::poison_is_seen_sent_back_and_purged),
        case!(Together, Nothing, waiting::parked_deliveries_are_released_and_canceled),
        case!(Together, Nothing, operating::attempts_are_logged_with_their_trace),
        case!(Together, LOGS, operating::metrics_are_those_of_the_table),
        case!(Together, Nothing, operating::a_delivery_is_shown_and_resent),
        case!(Together, Nothing, operating::an_event_is_explained),
        case!(Together, Nothing, operating::an_endpoints_health_is_told_and_reset),
        case!(Together, PYTHON, clients::azures_sdk_sends_every_kind_of_event_by_key_and_token),
        case!(Together, PYTHON, clients::azures_sdk_raises_its_classes_for_every_client),
        case!(Together, PYTHON, clients::cloud_events_come_in_binary_and_structured_form),
        case!(Together, CURL, clients::curl_publishes),
        case!(Together, NODE, javascript::every_client_sends_every_kind_of_event),
        case!(Together, NODE, javascript::every_client_raises_its_error),
        case!(Together, NODE, javascript::parsers_read_what_is_delivered),
        case!(Together, PYTHON, receivers::a_receiver_as_in_the_samples_reads_what_it_gets),
        case!(Together, PYTHON, receivers::a_receiver_is_validated_by_hand),
        case!(Together, PYTHON, resources::azures_management_models_round_trip_documents),
        case!(Together, Nothing, resources::a_patch_is_guarded_by_its_etag),
        case!(Together, Nothing, resources::lists_come_in_pages),
        case!(Together, Nothing, resources::a_sample_event_is_tested_against_a_filter),
        case!(Together, PYTHON, publishing::azures_sdk_sends_event_grid_events),
        case!(Together, PYTHON, publishing::azures_sdk_sends_cloud_events),
        case!(Together, PYTHON, repeats::azures_sdk_repeats_and_is_delivered_once),
        case!(Together, Nothing, repeats::a_publish_whose_answer_was_lost_is_delivered_once),
        case!(Together, Nothing, publishing::two_hundred_events_reach_three_subscriptions),
        case!(Together, PAYLOADS, publishing::a_large_fan_out_arrives_whole),
        case!(Together, Nothing, publishing::a_hundred_events_published_together_are_one_request),
        case!(Together, Nothing, refusals::nothing_of_a_refused_request_is_delivered),
        case!(Together, PYTHON, refusals::azures_sdk_raises_its_own_error_classes),
        case!(Together, Nothing, refusals::an_unknown_subscription_member_is_named_by_its_path),
        case!(Together, EMULATOR, quotas::the_emulator_refuses_what_aws_refuses),
        case!(Together, Nothing, handshakes::both_handshakes_are_made_before_any_event),
        case!(Together, Nothing, handshakes::an_endpoint_that_gives_no_proof_is_refused),
        case!(Disturbing, KILLED, redrive::an_outage_is_recovered_from),
        case!(Disturbing, RELEASE, release::it_is_deployed_and_proven_without_rust),
        case!(Disturbing, TERRAFORM, deployments::two_in_one_account_keep_apart),
        case!(Disturbing, TERRAFORM, terraform::a_subscription_of_the_module_lives_and_goes),
        case!(Disturbing, TERRAFORM, aws_sources::events_of_aws_services_arrive),
        case!(Disturbing, CARGO_LAMBDA, cargo_lambda::watch_serves_every_sample_and_publishers),
        case!(Disturbing, KILLED, crash::killed_functions_lose_nothing),
        case!(Disturbing, PERMISSIONS, infrastructure::permissions_are_enforced),
        // Before those that leave much behind them: all functions begin anew here, while events flow.
        case!(Alone, TERRAFORM, upgrade::a_new_version_loses_nothing),
        case!(Alone, PERMISSIONS, infrastructure::a_denied_read_and_a_denied_send_are_refused),
        case!(
            Disturbing,
            TERRAFORM,
            infrastructure::a_second_plan_shows_only_the_listed_misreports
        ),
        // It deletes what it finds.
        case!(Alone, PYTHON, resources::what_openapi_says_is_what_is_answered),
        case!(Alone, RESOURCES, aws_resources::throttled_calls_and_parts_of_batches_come_again),
        case!(Timed, Nothing, neighbours::one_that_never_answers_delays_nobody),
        case!(Alone, Nothing, changing::nothing_is_lost_while_event_subscriptions_come_and_go),
        case!(Alone, KILLED, chaos::nothing_is_lost),
        case!(Last, TERRAFORM, infrastructure::destroy_leaves_nothing),
    ]
}
