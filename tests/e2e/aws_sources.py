"""Publishes with AWS's own clients (botocore), as applications do: reads calls from standard input, makes them in order, and
writes their answers."""

import json
import os
import sys

import botocore.config
import botocore.session

given = json.load(sys.stdin)
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
session = botocore.session.get_session()
# A bucket as host is not a name on this machine.
config = botocore.config.Config(s3={"addressing_style": "path"})
answers = []
for service, operation, arguments in given["calls"]:
    client = session.create_client(
        service,
        region_name=given["region"],
        endpoint_url=given["url"],
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=config,
    )
    answer = getattr(client, operation)(**arguments)
    answer.pop("ResponseMetadata", None)
    answers.append(answer)
json.dump(answers, sys.stdout, default=str)
