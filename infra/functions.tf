# Settings that all functions share.

locals {
  functions_dir = (
    var.functions_dir == null ? "${path.module}/../target/lambda"
    : startswith(var.functions_dir, "/") ? var.functions_dir
    : "${path.root}/${var.functions_dir}"
  )

  # intake runs once for each AWS source, in modules/aws-source.
  programs = concat(
    ["ingest", "expand", local.dispatch_program, "dead-letter", "redrive", "manage", "wake"],
    var.aws_sources ? ["intake"] : [],
  )

  # A release has all zips in one folder; cargo-lambda puts each into its own.
  files = {
    for program in local.programs : program =>
    try(fileexists("${local.functions_dir}/${program}.zip"), false) ? "${local.functions_dir}/${program}.zip" : "${local.functions_dir}/${program}/bootstrap.zip"
  }

  # The source of each program: a zip on this machine, or an object in a bucket.
  packages = {
    for program in local.programs : program => {
      file   = var.functions_bucket == null ? local.files[program] : null
      bucket = try(var.functions_bucket.name, null)
      key    = var.functions_bucket == null ? null : "${var.functions_bucket.key_prefix}${program}.zip"
      sha256 = lookup(try(var.functions_bucket.sha256, var.functions_sha256), program, null)
    }
  }

  # Passed to every function.
  function_settings = {
    account                  = local.account
    architecture             = var.architecture
    log_retention_days       = var.log_retention_days
    tags                     = local.tags
    permissions_boundary_arn = var.permissions_boundary_arn
    iam_path                 = var.iam_path
    log_kms_key_arn          = var.kms_key_arns.logs
    versions                 = var.versions
    rollout                  = var.rollout
    tracing                  = var.tracing
  }

  # The program of each function, and its settings.
  function_programs = {
    for name, seconds in local.timeout_seconds : name => {
      package         = lookup(local.packages, name == "dispatch" ? local.dispatch_program : name, null)
      memory_mb       = local.memory_mb[name]
      timeout_seconds = seconds
      live_version    = lookup(var.live_versions, name, null)
    }
  }

  functions = {
    ingest      = module.ingest
    expand      = module.expand
    dispatch    = module.dispatch
    dead-letter = module.dead_letter
    redrive     = module.redrive
    manage      = module.manage
    wake        = module.wake
  }

  # 512 MB is about 0.29 vCPU: a small function spends its time on TLS and JSON. manage serves operators, not events.
  memory_mb = merge(
    { ingest = 512, expand = 512, dispatch = 512, dead-letter = 512, redrive = 512, manage = 256, wake = 256, intake = 512 },
    var.memory_mb,
  )

  common_environment = merge(
    { GRIDPOST_LOG = var.log_level },
    var.name_prefix == "gridpost" ? {} : { GRIDPOST_METRIC_NAMESPACE = local.metric_namespace },
    var.metrics_by_event_subscription ? { GRIDPOST_METRICS_BY_EVENT_SUBSCRIPTION = "true" } : {},
    local.emulated ? { AWS_ENDPOINT_URL = var.aws_endpoint_url } : {},
  )

  # What authenticated endpoints take: nothing in the environment and nothing in the roles where no secret is named.
  endpoint_secret_arns = distinct(concat(keys(var.endpoint_secrets), var.endpoint_entra_client[*].secret))
  endpoint_secret_environment = length(local.endpoint_secret_arns) == 0 ? {} : {
    GRIDPOST_ENDPOINT_SECRETS = jsonencode(merge(
      { hosts = var.endpoint_secrets },
      { for client in var.endpoint_entra_client[*] : "entra" => { clientId = client.client_id, secret = client.secret } },
    ))
  }
  endpoint_secret_statements = [
    for service, action in { secretsmanager = "secretsmanager:GetSecretValue", ssm = "ssm:GetParameter" } : {
      sid                                   = service == "ssm" ? "ReadEndpointParameters" : "ReadEndpointSecrets"
      actions                               = [action]
      resources                             = [for arn in local.endpoint_secret_arns : arn if split(":", arn)[2] == service]
    } if anytrue([for arn in local.endpoint_secret_arns : split(":", arn)[2] == service])
  ]

  # What requests in the deployment's own name take, and tokens of AWS: again nothing where none is named.
  endpoint_identities_named = length(var.endpoint_signed_hosts) + length(var.endpoint_roles) + length(var.endpoint_audiences) > 0
  endpoint_identity_environment = local.endpoint_identities_named ? {
    GRIDPOST_ENDPOINT_IDENTITIES = jsonencode({
      own       = keys(var.endpoint_signed_hosts)
      roles     = var.endpoint_roles
      audiences = var.endpoint_audiences
    })
  } : {}
  endpoint_targets = {
    for service in ["execute-api", "lambda"] : service => [
      for arn in distinct(flatten(values(var.endpoint_signed_hosts))) : arn if split(":", arn)[2] == service
    ]
  }
  endpoint_identity_statements = [
    for statement in [
      {
        sid       = "InvokeSignedApis"
        actions   = ["execute-api:Invoke"]
        resources = local.endpoint_targets["execute-api"]
      },
      {
        sid       = "CallSignedFunctionUrls"
        actions   = ["lambda:InvokeFunctionUrl"]
        resources = local.endpoint_targets["lambda"]
      },
      # Lambda asks for both, and so nothing but a URL invokes the function.
      {
        sid              = "InvokeSignedFunctions"
        actions          = ["lambda:InvokeFunction"]
        resources        = local.endpoint_targets["lambda"]
        via_function_url = true
      },
      {
        sid       = "AssumeEndpointRoles"
        actions   = ["sts:AssumeRole"]
        resources = keys(var.endpoint_roles)
      },
      {
        sid             = "GetEndpointTokens"
        actions         = ["sts:GetWebIdentityToken"]
        resources       = length(var.endpoint_audiences) > 0 ? ["*"] : []
        token_audiences = keys(var.endpoint_audiences)
      },
    ] : statement if length(statement.resources) > 0
  ]

  # The limits of all functions; queues take their visibility timeouts from here. ingest, manage: API Gateway gives up after 30 s,
  # so a later answer reaches no caller. wake: runs once a minute, and two runs must not overlap.
  timeout_seconds = {
    ingest      = 29
    expand      = 29
    dispatch    = var.dispatch_timeout_seconds
    dead-letter = 60
    redrive     = 60
    manage      = 29
    wake        = 55
    intake      = 29
  }
}
