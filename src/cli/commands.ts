/** The only list of commands: the name, arguments and action of each. The code of a command is loaded when it is called. */
import { Fault, faultLines, usageFault } from './terminal/fault.ts'
import { printingSafely } from './terminal/printable.ts'
import { FAILED, OK, REFUSED, type Edge, type Incidents } from './edge.ts'
import { explain } from './explain-command.ts'
import { changeCommands, configCommands, lookCommands, trialCommands } from './operator-commands.ts'
import {
  ADMIN,
  adminUrl,
  createProgram,
  hostAndPort,
  NeededOption,
  percentage,
  windowMs,
  single,
  TOKEN_HELP,
  usageEnd,
  type Declaration,
  type Does,
} from './program.ts'

const start: Declaration = (program, { lasting }) =>
  program
    .command('start')
    .description('the gateway and its admin listener')
    .addOption(new NeededOption('--config <file>', 'the configuration'))
    .option('--watch', 'take each change of the configuration and of the files it names')
    .action(lasting(async () => (await import('./start.ts')).startCommand))

const demo: Declaration = (program, { lasting }) =>
  program
    .command('demo')
    .description('gateway, admin listener and catalogue service, with demo keys')
    .option('--config <file>', 'the configuration (default: the example that comes along)', single)
    .option(
      '--db <file>',
      'where the catalogue keeps its animals (default: data/catalogue.db)',
      single,
    )
    .action(lasting(async () => (await import('./demo.ts')).demoCommand))

const catalogue: Declaration = (program, { lasting }) =>
  program
    .command('catalogue')
    .description('the catalogue service only, the reference backend')
    .addOption(new NeededOption('--listen <host:port>', 'where it listens', hostAndPort))
    .addOption(new NeededOption('--db <file>', 'where it keeps its animals'))
    .action(lasting(async () => (await import('./catalogue.ts')).catalogueCommand))

const check: Declaration = (program, { once }) =>
  program
    .command('check')
    .description('read a configuration and name every problem')
    .addOption(new NeededOption('--config <file>', 'the configuration'))
    .option('--connect', 'also try Redis, backends, key set and certificates')
    .option('--against <url>', 'also print what it would change at a running gateway', adminUrl)
    .addHelpText('after', TOKEN_HELP)
    .action(once(async () => (await import('./check.ts')).checkCommand))

const diff: Declaration = (program, { once }) =>
  program
    .command('diff')
    .description('what a new configuration would change, and for whom')
    .argument('<old>', 'the configuration that is in force')
    .argument('<new>', 'the one that is to be')
    .option('--json', 'as JSON')
    .action((current: string, next: string, { json = false }: { json?: boolean }) =>
      once(async () => (await import('./diff.ts')).diffCommand)({ files: [current, next], json }),
    )

const replay: Declaration = (program, { once }) =>
  program
    .command('replay')
    .description('what other limits would have made of the requests in access logs')
    .argument('<log...>', 'access logs, .gz and .zst too; - is the standard input')
    .addOption(new NeededOption('--config <file>', 'the configuration that decides'))
    .option('--against <file>', 'another one beside it, such as that in force', single)
    .option(
      '--client-field <name>',
      'in logs of others: who asked, as a client or a key id',
      single,
    )
    .option('--time-field <name>', 'the same: when', single)
    .option('--status-field <name>', 'the same: the status', single)
    .option(
      '--window <duration>',
      'how much later than it was decided a request may stand in a log (default: 60s)',
      windowMs,
    )
    .option('--html <file>', 'also write the report as a page of its own', single)
    .option(
      '--suggest',
      'the smallest plan that would not have limited each client, and plan limits; a pipe gets these alone, without the comparison',
    )
    .option(
      '--refused <share>',
      "with --suggest: each plan's limits, in their proportion, are lowered or raised until at most this share of its requests is refused (default: 1%)",
      percentage,
    )
    .option('--json', 'as JSON')
    .action((logs: string[], options: { config: string; suggest?: boolean; refused?: number }) => {
      if (options.refused !== undefined && !options.suggest)
        throw usageFault('--refused needs --suggest')
      return once(async () => (await import('./replay.ts')).replayCommand)({ ...options, logs })
    })

const reload: Declaration = (program, { once }) =>
  program
    .command('reload')
    .description('let a running gateway take its files as they are now')
    .option(...ADMIN)
    .option('--dry-run', 'only say what would change')
    .option('--json', 'as JSON')
    .addHelpText('after', TOKEN_HELP)
    .action(once(async () => (await import('./reload.ts')).reloadCommand))

const init: Declaration = (program, { once }) =>
  program
    .command('init')
    .description('write a small configuration with one client, and show its key once')
    .option('--write <file>', 'where to (default: gateway.yaml)', single)
    .option('--upstream <url>', 'the service behind (default: http://127.0.0.1:3000)', single)
    .option('--client <id>', 'whose key it is (default: first)', single)
    .action(once(async () => (await import('./init.ts')).initCommand))

const WRITE = ['--write <file>', 'the configuration or client file (YAML or .jsonl)'] as const
const EXPIRES = [
  '--expires <date>',
  'a date or a timestamp with its zone (default: never)',
] as const

const keys: Declaration = (program, { once }) => {
  const group = program.command('keys').description('API keys')
  group
    .command('new')
    .description('make an API key, show it once, and write it to a file or print its YAML')
    .addOption(new NeededOption('--client <id>', 'whose key it is'))
    .addOption(new NeededOption('--plan <plan>', 'of a new client', single, 'write'))
    .option('--per-minute <n>', 'limit of a new client of a custom plan', single)
    .option('--per-day <n>', 'the same', single)
    .option(...EXPIRES, single)
    .option(...WRITE, single)
    .option('--json', 'the key as JSON')
    .action(once(async () => (await import('./keys.ts')).keysNewCommand))
  group
    .command('rotate')
    .description('make a key beside another one, which ends after a grace')
    .argument('<key-id>', 'of the old key')
    .addOption(new NeededOption(...WRITE))
    .option('--grace <duration>', 'how long both are let in (default: 24h)', single)
    .option(...EXPIRES, single)
    .option('--json', 'the key as JSON')
    .action((key: string, options: { write: string }) =>
      once(async () => (await import('./keys.ts')).keysRotateCommand)({ ...options, key }),
    )
  group
    .command('revoke')
    .description('take a key out of a file')
    .argument('<key-id>', 'of the key')
    .addOption(new NeededOption(...WRITE))
    .action((key: string, options: { write: string }) =>
      once(async () => (await import('./keys.ts')).keysRevokeCommand)({ ...options, key }),
    )
  group
    .command('list')
    .description('the keys of a configuration or of a running gateway, and when they end')
    .addOption(new NeededOption('--config <file>', 'the configuration', single, 'admin'))
    .option('--admin <url>', 'of a running gateway', adminUrl)
    .option('--expiring <duration>', 'only those that end within this time', single)
    .option('--client <id>', 'only those of one client', single)
    .option('--json', 'as JSON')
    .addHelpText('after', TOKEN_HELP)
    .action(once(async () => (await import('./keys-list.ts')).keysListCommand))
}

const worker: Declaration = (program, { lasting }) =>
  program
    .command('worker', { hidden: true })
    .action(lasting(async () => (await import('./worker.ts')).workerCommand))

/** Groups in the order of the help. */
const groups: Readonly<Record<string, readonly Declaration[]>> = {
  'Run:': [start, demo, catalogue, worker],
  'Look:': lookCommands,
  'Change:': [...changeCommands, keys, reload],
  'Rehearse:': [explain, replay, ...trialCommands],
  'Config:': [init, check, diff, ...configCommands],
}

/** Runs what the arguments ask for; resolves to the exit code. */
export async function run(given: Edge): Promise<number> {
  const edge = printingSafely(given)
  const isJson = edge.args.includes('--json')
  const program = createProgram(edge, isJson)
  let code = OK
  const lasting: Does = (load) => async (options) => {
    code = await (await load())(edge, options)
  }
  const once: Does = (load) => (options) => {
    edge.attend(plainIncidents(edge))
    return lasting(load)(options)
  }
  for (const [heading, declarations] of Object.entries(groups)) {
    program.commandsGroup(heading)
    for (const declare of declarations) declare(program, { once, lasting })
  }
  try {
    await program.parseAsync(edge.args, { from: 'user' })
    return code
  } catch (error) {
    const { isUsage, isAnswered, fault } = usageEnd(error)
    if (isAnswered) return OK
    // The text has been written already, but only for persons.
    if (!isUsage || isJson) for (const line of faultLines(fault, isJson)) edge.complain(line)
    return fault instanceof Fault && REFUSING.has(fault.code) ? REFUSED : FAILED
  }
}

/** Codes of faults of the command line, or of the configuration that it names. */
const REFUSING = new Set(['usage', 'other_revision'])

const plainIncidents = (edge: Edge): Incidents => ({
  signal: () => edge.exit(FAILED),
  warning: ({ name, message }) => edge.complain(`tollgate: ${name}: ${message}`),
  crash: (error) => {
    edge.complain(`tollgate: ${String(error instanceof Error ? error.stack : error)}`)
    edge.exit(FAILED)
  },
})
