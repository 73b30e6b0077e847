/** Part of the list of commands: those that show and change a running gateway. */
import type { Command } from 'commander'
import { ADMIN, adminUrl, choice, chosen, NeededOption, single, TOKEN_HELP } from './program.ts'
import type { Declaration } from './program.ts'

/** Declares a command that asks a running gateway. */
const asking = (parent: Command, usage: string, description: string): Command =>
  parent
    .command(usage)
    .description(description)
    .option(...ADMIN)
    .option('--json', 'as JSON')
    .addHelpText('after', TOKEN_HELP)

/** Passes the argument of a command among its options; some options are parsed by the parent command, which has them too. */
const named =
  (name: string, run: (options: never) => Promise<void>) =>
  (value: string | undefined, _options: object, command: Command): Promise<void> =>
    run({ ...command.optsWithGlobals<object>(), [name]: value } as never)

const usage: Declaration = (program, { once }) => {
  const group = asking(program, 'usage [client]', 'what one has used, now and by day; or everyone')
    .option('--day <date>', 'one day, as 2026-11-03', single)
    .option('--from <date>', 'the first day', single)
    .option('--to <date>', 'the last day (default: today)', single)
    .option('--csv', 'as CSV, for billing')
    .action(
      named(
        'client',
        once(async () => (await import('./operator/usage.ts')).usageCommand),
      ),
    )
  asking(group, 'reset <client>', 'set what a client has used back to 0, on all gateways')
    .addOption(choice('--window <window>', 'default: both', ['minute', 'day', 'both']))
    .action(
      named(
        'client',
        once(async () => (await import('./operator/usage-reset.ts')).resetCommand),
      ),
    )
}

const bans: Declaration = (program, { once }) => {
  const group = program.command('bans').description('keys that are refused for a while')
  asking(group, 'list', 'who is banned, why, and until when').action(
    once(async () => (await import('./operator/bans-list.ts')).bansListCommand),
  )
  asking(group, 'add [key-id]', 'ban a key, or all keys of a client, on all gateways')
    .addOption(new NeededOption('--for <duration>', 'how long, as 1h; up to 400d'))
    .option('--reason <text>', 'shown to operators', single)
    .option('--client <id>', 'all its keys', single)
    .action(
      named(
        'key',
        once(async () => (await import('./operator/bans-change.ts')).bansAddCommand),
      ),
    )
  asking(group, 'lift <key-id>', 'end a ban, and forget the strikes').action(
    named(
      'key',
      once(async () => (await import('./operator/bans-change.ts')).bansLiftCommand),
    ),
  )
}

const clients: Declaration = (program, { once }) =>
  asking(program, 'clients', 'who is near its limits, who is limited and why')
    .option('--plan <plan>', 'only those of one plan', single)
    .option('--search <text>', 'only those whose id has it, or whose key it is', single)
    .addOption(choice('--sort <order>', 'default: nearest', ['nearest', 'used', 'refused', 'id']))
    .action(once(async () => (await import('./operator/clients.ts')).clientsCommand))

const top: Declaration = (program, { once }) =>
  asking(program, 'top', 'the busiest clients, live: used, or handed out; piped: a line a second')
    .addOption(choice('--by <order>', 'default: requests', ['requests', 'refusals', 'latency']))
    .action(once(async () => (await import('./operator/top.ts')).topCommand))

const backends: Declaration = (program, { once }) =>
  asking(program, 'backends', 'how each backend is, since when, and why').action(
    once(async () => (await import('./operator/backends.ts')).backendsCommand),
  )

const deprecations: Declaration = (program, { once }) =>
  asking(program, 'deprecations', 'who still calls a deprecated route, and with what').action(
    once(async () => (await import('./operator/deprecations.ts')).deprecationsCommand),
  )

const config: Declaration = (program, { once }) =>
  asking(program, 'config', 'the configuration in force, with its defaults').action(
    once(async () => (await import('./operator/config.ts')).configCommand),
  )

const conformance: Declaration = (program, { once }) =>
  program
    .command('conformance')
    .description('hold any rate-limiting gateway against its promises, from outside')
    .addOption(new NeededOption('--target <url>', 'the gateway', adminUrl))
    .addOption(new NeededOption('--keys <file>', 'at least 20, one a line, each of another client'))
    .addOption(new NeededOption('--limits <minute/day>', 'that each key has, as 60/1000'))
    .option('--path <path>', 'what is asked for (default: /v1/pets)', single)
    .option('--only <groups>', 'of checks, with commas between them', single)
    .option('--json', 'as JSON')
    .option('--html <file>', 'also as a page', single)
    .action(once(async () => (await import('./conformance.ts')).conformanceCommand))

const completion: Declaration = (program, { once }) => {
  program
    .command('completion')
    .description('what a shell needs to complete commands, options and ids')
    .addArgument(chosen('<shell>', ['bash', 'zsh', 'fish']))
    .action(
      named(
        'shell',
        once(async () => (await import('./operator/completion.ts')).completionCommand),
      ),
    )
  const complete = once(async () => (await import('./operator/complete.ts')).completeCommand)
  program
    .command('complete <line>', { hidden: true })
    .action((line: string) => complete({ line, program }))
}

export const lookCommands = [usage, clients, top, backends, deprecations]
export const changeCommands = [bans]
export const configCommands = [config, completion]
export const trialCommands = [conformance]
