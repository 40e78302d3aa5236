# deliveries/: events that are too large for a queue message, one object for each delivery. ingest and expand write it; it is
# emptied when the delivery has ended, and removed by age. publishes/: one object for each publish that makes too many deliveries
# for one request, removed by age.

locals {
  # A delivery lives for at most 7 days (time-to-live of the namespace profile), and its dead letter waits for at most 14 more
  # (retention of the queue). A message that refers to a publish lives for 14 days, and for 14 more if it is sent again, from the
  # poison queue or because an invocation's time was up. Two days are spare. By then an object is empty, or nothing refers to it.
  payload_days = max(7 + 14, 14 + 14) + 2
}

resource "aws_s3_bucket" "payloads" {
  # checkov:skip=CKV_AWS_18:access logs would need a second bucket; CloudTrail data events do it without
  # checkov:skip=CKV_AWS_21:an object is only ever replaced by an empty one, so older versions are useless
  # checkov:skip=CKV_AWS_144:an event in flight is not worth a copy in another region
  # checkov:skip=CKV_AWS_145:S3's own key; see the state table
  # checkov:skip=CKV2_AWS_62:nothing needs a notification of a new object
  bucket        = local.payload_bucket_name
  tags          = local.tags
  force_destroy = !var.protect_data
}

resource "aws_s3_bucket_lifecycle_configuration" "payloads" {
  bucket = aws_s3_bucket.payloads.id

  rule {
    id     = "remove-by-age"
    status = "Enabled"
    filter {}

    expiration {
      days = local.payload_days
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "aws_s3_bucket_public_access_block" "payloads" {
  bucket                  = aws_s3_bucket.payloads.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "payloads" {
  bucket = aws_s3_bucket.payloads.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "payloads" {
  bucket = aws_s3_bucket.payloads.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm     = local.bucket_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = local.bucket_key_arn
    }

    # One KMS call serves many objects.
    bucket_key_enabled = local.bucket_key_arn == null ? null : true
  }
}

resource "aws_s3_bucket_policy" "payloads" {
  bucket = aws_s3_bucket.payloads.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "DenyPlainHttp"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = [local.payload_bucket_arn, "${local.payload_bucket_arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })

  # S3 refuses two changes of a bucket's access at the same moment.
  depends_on = [aws_s3_bucket_public_access_block.payloads]
}
