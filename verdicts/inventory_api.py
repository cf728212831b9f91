"""The REST API of what verdicts are about and made with: clusters, nodes, the ruleset in force."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from verdicts import conclude
from verdicts import serializers as shapes
from verdicts.api import List
from verdicts.models import (
    Cluster,
    Node,
    RulesetVersion,
)
from verdicts.permissions import ReadOnly


class Clusters(List):
    """Clusters."""

    serializer_class = shapes.ClusterSerializer
    queryset = Cluster.objects.order_by("name")


class Nodes(List):
    """Nodes, with how often a standing verdict names them."""

    serializer_class = shapes.NodeSerializer
    queryset = Node.objects.for_list().own()


class RulesetInForce(APIView):
    """The ruleset that new verdicts are made with."""

    permission_classes = [ReadOnly]

    @extend_schema(responses={200: shapes.RulesetSerializer})
    def get(self, request: Request) -> Response:
        ruleset = conclude.current_ruleset()
        used = RulesetVersion.objects.order_by("-first_used_at")[:50]
        return Response(
            {
                "digest": ruleset.digest,
                "rules": len(ruleset.rules),
                "layers": list(ruleset.layers),
                "used": shapes.RulesetVersionSerializer(used, many=True).data,
            }
        )
