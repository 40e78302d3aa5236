# Dead letters go here unless an event subscription names another bucket (variable dead_letter_bucket_arns).

locals {
  bucket_key_arn = var.kms_key_arns.s3
}

resource "aws_s3_bucket" "dead_letters" {
  # checkov:skip=CKV_AWS_18:access logs would need a second bucket; CloudTrail data events do it without
  # checkov:skip=CKV_AWS_21:each object has its own name and is written once; only a purge deletes it
  # checkov:skip=CKV_AWS_144:the owner decides on a copy in another region
  # checkov:skip=CKV_AWS_145:S3's own key; see the state table
  # checkov:skip=CKV2_AWS_61:a dead letter is the last copy of an event; the owner says when it goes (dead_letter_retention_days)
  # checkov:skip=CKV2_AWS_62:nothing needs a notification of a new object
  bucket        = local.dead_letter_bucket_name
  tags          = local.tags
  force_destroy = !var.protect_data
}

resource "aws_s3_bucket_lifecycle_configuration" "dead_letters" {
  count = var.dead_letter_retention_days == null ? 0 : 1

  bucket = aws_s3_bucket.dead_letters.id

  rule {
    id     = "remove-by-age"
    status = "Enabled"
    filter {}

    expiration {
      days = var.dead_letter_retention_days
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "aws_s3_bucket_public_access_block" "dead_letters" {
  bucket                  = aws_s3_bucket.dead_letters.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "dead_letters" {
  bucket = aws_s3_bucket.dead_letters.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "dead_letters" {
  bucket = aws_s3_bucket.dead_letters.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm     = local.bucket_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = local.bucket_key_arn
    }

    # One KMS call serves many objects.
    bucket_key_enabled = local.bucket_key_arn == null ? null : true
  }
}

resource "aws_s3_bucket_policy" "dead_letters" {
  bucket = aws_s3_bucket.dead_letters.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "DenyPlainHttp"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = [local.dead_letter_bucket_arn, "${local.dead_letter_bucket_arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })

  # S3 refuses two changes of a bucket's access at the same moment.
  depends_on = [aws_s3_bucket_public_access_block.dead_letters]
}
