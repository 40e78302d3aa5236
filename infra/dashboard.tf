# The deployment at a glance: what comes in, how it ends, what waits, what the functions do.

locals {
  # Each deployment of an account and region has its own namespace, because alarms watch metrics without dimensions. The default
  # name is also in shared/runtime/src/config.rs.
  metric_namespace = var.name_prefix == "gridpost" ? "Gridpost" : "Gridpost/${var.name_prefix}"

  # Quoted, because names may contain a hyphen or a slash. Searches show what exists when the dashboard is opened.
  by_names       = var.metrics_by_event_subscription ? ",Topic,EventSubscriptionName" : ""
  by_error       = "{\"${local.metric_namespace}\",Error${local.by_names}}"
  by_dead_letter = "{\"${local.metric_namespace}\",DeadLetterReason${local.by_names}}"
  by_drop        = "{\"${local.metric_namespace}\",DropReason${local.by_names}}"

  # A metric whose only dimensions are names becomes one line without them.
  of_topics        = "{\"${local.metric_namespace}\",Topic}"
  of_subscriptions = "{\"${local.metric_namespace}\",Topic,EventSubscriptionName}"

  searches = merge(
    {
      DeliveryAttemptFailCount = local.by_error
      ProbationCount           = local.by_error
      DeadLetteredCount        = local.by_dead_letter
      DroppedEventCount        = local.by_drop
      PublishFailCount         = "{\"${local.metric_namespace}\",ErrorType,Error}"
    },
    !var.metrics_by_event_subscription ? {} : {
      PublishSuccessCount               = local.of_topics
      UnmatchedEventCount               = local.of_topics
      PublishSuccessLatencyInMs         = local.of_topics
      MatchedEventCount                 = local.of_subscriptions
      DeliverySuccessCount              = local.of_subscriptions
      RedrivenEventCount                = local.of_subscriptions
      DestinationProcessingDurationInMs = local.of_subscriptions
      DeliveryLatencyInMs               = local.of_subscriptions
    },
  )

  # Log lines have what metrics do not say about event subscriptions. Opening the dashboard reads dispatch's log.
  log_tables = var.metrics_by_event_subscription ? [] : [{
    title = "By event subscription, from dispatch's log: delivered, failed attempts, dropped"
    query = "SOURCE '${module.dispatch.log_group_name}' | filter ispresent(EventSubscriptionName) | stats sum(DeliverySuccessCount) as delivered, sum(DeliveryAttemptFailCount) as failed, sum(DroppedEventCount) as dropped by Topic, EventSubscriptionName | sort failed desc | limit 100"
  }]

  # Graphs of Gridpost's own metrics.
  own_graphs = [
    { title = "Events accepted", stat = "Sum", names = ["PublishSuccessCount"] },
    { title = "Publishes refused, by error", stat = "Sum", names = ["PublishFailCount"] },
    { title = "Events matched; unmatched", stat = "Sum", names = ["MatchedEventCount", "UnmatchedEventCount"] },
    { title = "Events delivered", stat = "Sum", names = ["DeliverySuccessCount"] },
    { title = "Failed attempts, by error", stat = "Sum", names = ["DeliveryAttemptFailCount"] },
    { title = "Waits of endpoints that began", stat = "Sum", names = ["ProbationCount"] },
    { title = "Dead letters, by reason; sent again", stat = "Sum", names = ["DeadLetteredCount", "RedrivenEventCount"] },
    { title = "Events dropped, by reason", stat = "Sum", names = ["DroppedEventCount"] },
    { title = "Milliseconds of attempts (latency_metrics)", stat = "Average", names = ["DestinationProcessingDurationInMs"] },
    { title = "Milliseconds from publish to delivery (latency_metrics)", stat = "Average", names = ["DeliveryLatencyInMs"] },
    { title = "Milliseconds of publishes (latency_metrics)", stat = "Average", names = ["PublishSuccessLatencyInMs"] },
  ]

  queue_graphs = [
    { title = "Age of the oldest message, seconds", name = "ApproximateAgeOfOldestMessage" },
    { title = "Messages that are ready", name = "ApproximateNumberOfMessagesVisible" },
    { title = "Deliveries that wait, hidden (the wall is at 120,000 for each queue)", name = "ApproximateNumberOfMessagesNotVisible" },
    { title = "Deliveries that wait for their second attempt", name = "ApproximateNumberOfMessagesDelayed" },
  ]

  dashboard_graphs = concat(
    [for graph in local.own_graphs : merge(graph, { metrics = [
      for name in graph.names : jsondecode(
        contains(keys(local.searches), name)
        ? jsonencode([{ expression = "SEARCH('${lookup(local.searches, name, "")} MetricName=\"${name}\"', '${graph.stat}', 60)" }])
        : jsonencode([local.metric_namespace, name])
      )
    ] })],
    [for graph in local.queue_graphs : {
      title   = graph.title
      stat    = "Maximum"
      metrics = [for queue in local.queue_names : ["AWS/SQS", graph.name, "QueueName", queue]]
    }],
    [
      { title = "Waits parked; parked ones that can't be sent; visibility changes refused; unreadable messages; messages that came back", stat = "Sum", metrics = [for name in ["ParkedCount", "StuckParkedCount", "HideFailCount", "PoisonCount", "KeptCount"] : [local.metric_namespace, name]] },
      { title = "Errors of functions", stat = "Sum", metrics = [for name in keys(local.functions) : ["AWS/Lambda", "Errors", "FunctionName", "${var.name_prefix}-${name}"]] },
      { title = "Throttled invocations", stat = "Sum", metrics = [for name in keys(local.functions) : ["AWS/Lambda", "Throttles", "FunctionName", "${var.name_prefix}-${name}"]] },
    ],
  )
}

resource "aws_cloudwatch_dashboard" "this" {
  count = var.dashboard ? 1 : 0

  dashboard_name = var.name_prefix

  dashboard_body = jsonencode({
    widgets = concat([
      for index, graph in local.dashboard_graphs : {
        type   = "metric"
        x      = 8 * (index % 3)
        y      = 6 * floor(index / 3)
        width  = 8
        height = 6
        properties = {
          region  = local.region
          view    = "timeSeries"
          title   = graph.title
          stat    = graph.stat
          period  = 60
          metrics = graph.metrics
        }
      }
      ], [
      for index, table in local.log_tables : {
        type       = "log"
        x          = 0
        y          = 6 * ceil(length(local.dashboard_graphs) / 3)
        width      = 24
        height     = 6
        properties = { region = local.region, view = "table", title = table.title, query = table.query }
      }
    ])
  })
}
