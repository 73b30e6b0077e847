/** The only list of commands. Those that ask a running gateway declare themselves; the others are declared here, as their code is loaded when they are called. */
import { windowNames } from '../config/time.ts'
import { exitCodeOf, FAILED, faultLines, OK } from './terminal/fault.ts'
import { printingSafely } from './terminal/printable.ts'
import type { Edge, Incidents } from './edge.ts'
import type { Command } from 'commander'
import {
  adminUrl,
  createProgram,
  loadHttp,
  NeededOption,
  optionsAndArguments,
  percentage,
  separateOptions,
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
    .option('--config <file>', 'the configuration (default: the example that comes along)')
    .option('--db <file>', 'where the catalogue keeps its animals (default: data/catalogue.db)')
    .action(lasting(async () => (await import('./demo.ts')).demoCommand))

const catalogue: Declaration = (program, { lasting }) =>
  program
    .command('catalogue')
    .description('the catalogue service only, the reference backend')
    .addOption(new NeededOption('--listen <host:port>', 'where it listens'))
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
    .action(once(async () => (await import('./check.ts')).diffCommand))

const replay: Declaration = (program, { once }) =>
  program
    .command('replay')
    .description('what other limits would have made of the requests in access logs')
    .argument('<logs...>', 'access logs, .gz and .zst too; - is the standard input')
    .addOption(new NeededOption('--config <file>', 'the configuration that decides'))
    .option('--against <file>', 'another one beside it, such as that in force')
    .option(
      '--client-field <name>',
      'field with the client or key id, in JSON logs of other servers',
    )
    .option('--time-field <name>', 'field with the time, in such logs')
    .option('--status-field <name>', 'field with the status, in such logs')
    .option(
      '--window <duration>',
      'how much later than it was decided a request may stand in a log (default: 60s)',
    )
    .option('--html <file>', 'also write the report as a page of its own')
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
    .action(once(async () => (await import('./replay.ts')).replayCommand))

const conformance: Declaration = (program, { once }) =>
  program
    .command('conformance')
    .description('hold any rate-limiting gateway against its promises, from outside')
    .addOption(new NeededOption('--target <url>', 'the gateway').argParser(adminUrl))
    .addOption(new NeededOption('--keys <file>', 'at least 20, one a line, each of another client'))
    .addOption(
      new NeededOption(`--limits <${windowNames.join('/')}>`, 'that each key has, as 60/1000'),
    )
    .option('--path <path>', 'what is asked for (default: /v1/pets)')
    .option('--only <groups>', 'of checks, with commas between them')
    .option('--json', 'as JSON')
    .option('--html <file>', 'also as a page')
    .action(once(async () => (await import('./conformance.ts')).conformanceCommand))

const init: Declaration = (program, { once }) =>
  program
    .command('init')
    .description('write a small configuration with one client, and show its key once')
    .option('--write <file>', 'where to (default: gateway.yaml)')
    .option('--upstream <url>', 'the service behind (default: http://127.0.0.1:3000)')
    .option('--client <id>', 'whose key it is (default: first)')
    .action(once(async () => (await import('./init.ts')).initCommand))

const WRITE = ['--write <file>', 'configuration or client file to change (YAML or .jsonl)'] as const

const keys: Declaration = (program, { once }) => {
  const group = program.command('keys').description('create, rotate, revoke and list API keys')
  const made = group
    .command('new')
    .description('create a key and show it once; a file gets its digest alone')
    .addOption(new NeededOption('--client <id>', 'client that the key belongs to'))
    .addOption(new NeededOption('--plan <plan>', 'plan of a new client', 'write'))
  const [shortest, ...longer] = windowNames
  made.option(`--per-${shortest} <n>`, 'limit of a new client, if its plan has none')
  for (const name of longer)
    made.option(`--per-${name} <n>`, `limit for the ${name}, beside --per-${shortest}`)
  made
    .option('--expires <date>', 'when it stops working: a date or time (default: never)')
    .option(...WRITE)
    .option('--json', 'print the key as JSON')
    .action(once(async () => (await import('./keys.ts')).keysNewCommand))
  group
    .command('rotate')
    .description('create a second key for the same client; the old one works for a while longer')
    .argument('<key-id>', 'id of the old key')
    .addOption(new NeededOption(...WRITE))
    .option('--grace <duration>', 'how long the old key still works (default: 24h)')
    .option('--expires <date>', 'when it stops working: a date or time (default: never)')
    .option('--json', 'print the key as JSON')
    .action(once(async () => (await import('./keys.ts')).keysRotateCommand))
  group
    .command('revoke')
    .description('remove a key from a file; it stops working with the next reload')
    .argument('<key-id>', 'id of the key')
    .addOption(new NeededOption(...WRITE))
    .action(once(async () => (await import('./keys.ts')).keysRevokeCommand))
  group
    .command('list')
    .description('the keys of a running gateway, or of a configuration, and when they end')
    .option('--config <file>', 'those of this configuration, and ask no gateway')
    .option('--admin <url>', 'its admin listener (default: as for the other commands)', adminUrl)
    .option('--expiring <duration>', 'only keys that expire within this time, such as 30d')
    .option('--client <id>', 'only keys of this client')
    .option('--json', 'as JSON')
    .addHelpText('after', TOKEN_HELP)
    .action(once(async () => (await import('./keys-list.ts')).keysListCommand))
}

const worker: Declaration = (program, { lasting }) =>
  program
    .command('worker', { hidden: true })
    .action(lasting(async () => (await import('./worker.ts')).workerCommand))

/** Groups in the order of the help. called: one that asks no gateway stands alone, and starts sooner without those that do. */
async function groupsFor(called = ''): Promise<Readonly<Record<string, readonly Declaration[]>>> {
  const own = { start, demo, catalogue, worker, keys, replay, conformance, init, check, diff }
  if (Object.hasOwn(own, called)) return { 'Run:': [own[called as keyof typeof own]] }
  const { backends } = await import('./operator/backends.ts')
  const { bans } = await import('./operator/bans.ts')
  const { clients } = await import('./operator/clients.ts')
  const { completion } = await import('./operator/completion.ts')
  const { config } = await import('./operator/config.ts')
  const { deprecations } = await import('./operator/deprecations.ts')
  const { explain } = await import('./operator/explain.ts')
  const { reload } = await import('./operator/reload.ts')
  const { top } = await import('./operator/top.ts')
  const { usage } = await import('./operator/usage.ts')
  return {
    'Run:': [start, demo, catalogue, worker],
    'Look:': [usage, clients, top, backends, deprecations],
    'Change:': [bans, keys, reload],
    'Rehearse:': [explain, replay, conformance],
    'Config:': [init, check, diff, config, completion],
  }
}

/** Runs what the arguments ask for; resolves to the exit code. */
export async function run(given: Edge): Promise<number> {
  const edge = printingSafely(given)
  const isJson = edge.args.includes('--json')
  const program = createProgram(edge, isJson)
  let code = OK
  const doing =
    (isOnce: boolean): Does =>
    (load) =>
    async (...given) => {
      if (isOnce) edge.attend(plainIncidents(edge))
      else loadHttp()
      const command = given.at(-1) as Command
      code = (await (await load())(edge, optionsAndArguments(command) as never, command)) ?? OK
    }
  const does = { once: doing(true), lasting: doing(false) }
  for (const [heading, declarations] of Object.entries(await groupsFor(edge.args[0]))) {
    program.commandsGroup(heading)
    for (const declare of declarations) declare(program, does)
  }
  separateOptions(program)
  try {
    await program.parseAsync(edge.args, { from: 'user' })
    return code
  } catch (error) {
    const { isUsage, isAnswered, fault } = usageEnd(error)
    if (isAnswered) return OK
    // The text has been written already, but only for persons.
    if (!isUsage || isJson) for (const line of faultLines(fault, isJson)) edge.complain(line)
    return exitCodeOf(fault)
  }
}

const plainIncidents = (edge: Edge): Incidents => ({
  signal: () => edge.exit(FAILED),
  warning: ({ name, message }) => edge.complain(`tollgate: ${name}: ${message}`),
  crash: (error) => {
    edge.complain(`tollgate: ${String(error instanceof Error ? error.stack : error)}`)
    edge.exit(FAILED)
  },
})
