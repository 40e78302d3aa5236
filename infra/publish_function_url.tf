# The function URL of ingest, publish_front_door FUNCTION_URL: it takes the same requests as the publish API, without API
# Gateway's fee per request, and without its throttling and tokens. ingest answers 404 to anything that is not a publish.

locals {
  # Empty without a function URL.
  publish_function_url = trimsuffix(join("", [for stack in aws_cloudformation_stack.publish_function_url : stack.outputs["Url"]]), "/")

  # Anyone may send requests: ingest checks keys. IAM principals need only their own policy. Since October 2025 a function URL
  # needs both actions. The condition of the second one keeps everyone from invoking ingest directly, with a forged request.
  publish_function_url_grants = {
    for name, grant in {
      CallUrl     = { Action = "lambda:InvokeFunctionUrl", FunctionUrlAuthType = "NONE" }
      InvokeByUrl = { Action = "lambda:InvokeFunction", InvokedViaFunctionUrl = true }
    } : name => merge(grant, { FunctionName = module.ingest.arn, Principal = "*" }) if var.publish_authorization != "AWS_IAM"
  }
}

# Made by CloudFormation, which removes the grants with the URL. The provider's own aws_lambda_function_url adds them too, but keeps
# them in no state: they would outlive the URL and leave ingest open to all. Sources: hashicorp/terraform-provider-aws issue 38260,
# pull request 44858 (since 6.28 it adds both).
resource "aws_cloudformation_stack" "publish_function_url" {
  # checkov:skip=CKV_AWS_124:it holds a URL and its grants, which Terraform watches
  count = local.publish_by_api ? 0 : 1

  name = "${var.name_prefix}-publish-by-url"
  tags = local.tags

  template_body = jsonencode({
    Description = "Gridpost: the function URL of ingest, and who may call it"
    Resources = merge(
      {
        Url = {
          Type = "AWS::Lambda::Url"
          Properties = merge(
            {
              TargetFunctionArn = module.ingest.name
              AuthType          = var.publish_authorization == "AWS_IAM" ? "AWS_IAM" : "NONE"
              InvokeMode        = "BUFFERED"
            },
            { for qualifier in module.ingest.qualifier[*] : "Qualifier" => qualifier },
          )
        }
      },
      {
        for name, grant in local.publish_function_url_grants :
        name => { Type = "AWS::Lambda::Permission", Properties = grant }
      },
    )
    Outputs = { Url = { Value = { "Fn::GetAtt" = ["Url", "FunctionUrl"] } } }
  })

  lifecycle {
    precondition {
      condition     = var.publish_authorization != "JWT" && var.publish_jwt_issuer == null && length(var.publish_jwt_audience) == 0
      error_message = "A function URL takes no tokens: publish_front_door \"FUNCTION_URL\" goes with publish_authorization \"KEYS\" or \"AWS_IAM\", and without publish_jwt_issuer and publish_jwt_audience. For tokens use publish_front_door \"HTTP_API\"."
    }
  }

  # Publishes must not arrive before the tables and queues that ingest uses exist.
  depends_on = [aws_dynamodb_table.config, aws_sqs_queue.dispatch, aws_sqs_queue.fan_out]
}
