"""``rhumbline access``: grant, revoke, ls, check, explain."""

from collections.abc import Sequence
from typing import Any

import click

from ...access.grant_store import change_grants, read_grants
from ...core.protocol.errors import PermissionDeniedError
from ...security.grant_table import AccessDecision, GrantTable
from ...security.grants import Action, Effect, Grant, check_principal, make_grant, parse_resource
from ...security.principal import Principal, Role
from ...security.token_claims import parse_roles
from ..options import Command, CommandSession, runs, session_options
from ..output import print_done, print_message, print_record, print_rows
from ..output_form import TABLE
from ..output_schema import Schema, done, flag, listing, prints, record, rows, text

ALL = "all"

_GRANT: dict[str, Schema] = {
    "principal": text("Name of the principal; * stands for all."),
    "effect": text("The effect of the grant.", *Effect),
    "actions": listing(text("Action.", *Action), "The actions."),
    "resource": text("The resource."),
}
_DECISION: dict[str, Schema] = {
    "principal": text("Name of the principal."),
    "action": text("The action.", *Action),
    "resource": text("The resource."),
    "is_allowed": flag("True if the principal may do that."),
    "reason": text("Why, in words."),
}

_ROLES = listing(text("Role.", *Role), "The roles of the principal.")
_APPLY = "The grants that apply to the principal."


def _grant_arguments(command: Command) -> Command:
    for option in (
        click.option("--deny", is_flag=True, help="A grant that denies, and wins over others."),
        click.argument("resource"),
        click.argument("actions"),
        click.argument("principal"),
    ):
        command = option(command)
    return command


def _question_arguments(command: Command) -> Command:
    for option in (
        click.option("--role", "roles", multiple=True,
                     type=click.Choice([role.value for role in Role]),
                     help="Role of the principal's certificate or token. Repeatable."),
        click.argument("resource"),
        click.argument("action", type=click.Choice([action.value for action in Action])),
        click.argument("principal"),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group()
def access() -> None:
    """Grant and revoke permissions, and explain why a call is refused.

    A RESOURCE is cluster, namespace:NAME, stream:NAMESPACE/NAME or stream:NAMESPACE/PREFIX*.
    ACTIONS are separated by commas; `all` stands for all of them.
    """


@access.command()
@_grant_arguments
@prints(done(_GRANT))
@session_options
@runs
async def grant(
    session: CommandSession, principal: str, actions: str, resource: str, deny: bool
) -> None:
    """Allow ACTIONS on RESOURCE to PRINCIPAL, or deny them. Safe to repeat."""
    made = _parsed(principal, actions, resource, deny)
    async with session.client(moves_data=False) as client:
        await change_grants(client.store, lambda table: table.granted(made))
    print_done(_row(made), session.output, f"granted: {made}")


@access.command()
@_grant_arguments
@prints(done(_GRANT))
@session_options
@runs
async def revoke(
    session: CommandSession, principal: str, actions: str, resource: str, deny: bool
) -> None:
    """Revoke what was granted for exactly this RESOURCE. Safe to repeat.

    It takes effect within seconds, also for appends and reads in progress.
    """
    made = _parsed(principal, actions, resource, deny)
    async with session.client(moves_data=False) as client:
        await change_grants(client.store, lambda table: table.revoked(made))
    print_done(_row(made), session.output, f"revoked: {made}")


@access.command()
@click.option("--principal", default="", help="Only grants that apply to this principal.")
@prints(rows(record(_GRANT)))
@session_options
@runs
async def ls(session: CommandSession, principal: str) -> None:
    """List the grants."""
    table = await _read(session)
    found = table.of(principal) if principal else table.grants
    shown = [_row(one) for one in found]
    if session.output == TABLE:
        shown = [{**row, "actions": ", ".join(row["actions"])} for row in shown]
    nothing = f"no grant applies to principal {principal}" if principal else "no grants"
    print_rows(shown, session.output, empty=nothing)


@access.command()
@_question_arguments
@prints(record(_DECISION))
@session_options
@runs
async def check(
    session: CommandSession, principal: str, action: str, resource: str, roles: Sequence[str]
) -> None:
    """Check that PRINCIPAL may do ACTION to RESOURCE; fails if not.

    The decision is that of the grants as they are stored now. Proxies follow within seconds.
    """
    table = await _read(session)
    decision = _decide(session, table, principal, action, resource, roles)
    print_record(_decided(principal, action, resource, decision), session.output)
    if not decision.is_allowed:
        raise PermissionDeniedError(decision.reason)


@access.command()
@_question_arguments
@prints(record({**_DECISION, "roles": _ROLES, "grants": listing(record(_GRANT), _APPLY)}))
@session_options
@runs
async def explain(
    session: CommandSession, principal: str, action: str, resource: str, roles: Sequence[str]
) -> None:
    """Explain why PRINCIPAL may or may not do ACTION to RESOURCE."""
    table = await _read(session)
    decision = _decide(session, table, principal, action, resource, roles)
    known = _principal(session, principal, roles)
    grants = [_row(one) for one in table.of(principal)]
    document = {
        **_decided(principal, action, resource, decision),
        "roles": sorted(known.roles),
        "grants": grants,
    }
    if session.output != TABLE:
        print_record(document, session.output)
        return
    may = "may" if decision.is_allowed else "may not"
    click.echo(f"{principal} {may} {action} on {resource}")
    click.echo(f"because: {decision.reason}")
    click.echo(f"roles: {', '.join(sorted(known.roles))}")
    click.echo("grants that apply to the principal:")
    for one in table.of(principal):
        click.echo(f"  {one}")
    if not grants:
        click.echo("  none")
    if not session.settings.security.access_control:
        print_message("security.access_control is off in these settings: proxies check no grants")


async def _read(session: CommandSession) -> GrantTable:
    async with session.client(moves_data=False) as client:
        return await read_grants(client.store)


def _principal(session: CommandSession, name: str, roles: Sequence[str]) -> Principal:
    """Return the principal with its roles, of which those in the settings replace all others."""
    given = dict(session.settings.security.roles).get(name)
    return Principal(name, parse_roles(",".join(roles) if given is None else given))


def _decide(
    session: CommandSession,
    table: GrantTable,
    principal: str,
    action: str,
    resource: str,
    roles: Sequence[str],
) -> AccessDecision:
    known = _principal(session, check_principal(principal), roles)
    return table.decide(known, [Action(action)], parse_resource(resource))


def _parsed(principal: str, actions: str, resource: str, deny: bool) -> Grant:
    words = [word.strip() for word in actions.split(",")]
    found = list(Action) if words == [ALL] else words
    return make_grant(principal, found, resource, Effect.DENY if deny else Effect.ALLOW)


def _row(one: Grant) -> dict[str, Any]:
    return {
        "principal": one.principal,
        "effect": one.effect.value,
        "actions": sorted(one.actions),
        "resource": str(one.resource),
    }


def _decided(
    principal: str, action: str, resource: str, decision: AccessDecision
) -> dict[str, Any]:
    return {
        "principal": principal,
        "action": action,
        "resource": resource,
        "is_allowed": decision.is_allowed,
        "reason": decision.reason,
    }
