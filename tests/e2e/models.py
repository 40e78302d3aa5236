"""Passes documents of event subscriptions through the models of Azure's management SDK.

Input: [{"document", "endpointUrl"}, ...]: a document as a read answers it has no URL with its query;
       users of the SDK get that from `get_full_url`, too.
Output: [{"document": <written by the model>, "destination": <class of the destination's model>,
          "filters": [<class of a filter's model>, ...], "schema"}, ...]
"""

import json
import sys

from azure.mgmt.eventgrid.models import EventSubscription


def pass_through(given):
    model = EventSubscription.deserialize(given["document"])
    model.destination.endpoint_url = given["endpointUrl"]
    return {
        "document": model.serialize(),
        "destination": type(model.destination).__name__,
        "filters": [type(one).__name__ for one in model.filter.advanced_filters or []],
        "attributes": [
            type(one).__name__ for one in model.destination.delivery_attribute_mappings or []
        ],
        "schema": model.event_delivery_schema,
    }


json.dump([pass_through(given) for given in json.load(sys.stdin)], sys.stdout)
