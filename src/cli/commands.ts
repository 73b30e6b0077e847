/** The only list of commands: what each is called, takes and does. What it runs is loaded when it is asked for. */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import type { ListenAddress } from '../config/config.ts'
import { FAILED, OK, REFUSED, type Edge, type Incidents } from './edge.ts'

/** Runs what has been loaded, with the options; it resolves to the exit code. */
type Does = <Options>(
  load: () => Promise<(edge: Edge, options: Options) => number | Promise<number>>,
) => (options: Options) => Promise<void>

/** Adds a command to the program. lasting: it attends to signals itself; once: a signal ends it at once. */
type Declaration = (program: Command, does: { readonly once: Does; readonly lasting: Does }) => void

/** Its absence is told last: a misspelt option comes first, with a suggestion. */
class NeededOption extends Option {
  readonly unless: string | undefined

  /** unless: the option in whose company it is not needed. */
  constructor(
    flags: string,
    description: string,
    parse: (value: string, earlier: unknown) => string | ListenAddress = single,
    unless?: string,
  ) {
    super(flags, `${description} (required${unless === undefined ? '' : ` without --${unless}`})`)
    this.argParser(parse)
    this.unless = unless
  }
}

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

const TOKEN_HELP = '\nThe admin token comes from the environment variable TOLLGATE_ADMIN_TOKEN.'

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

const reload: Declaration = (program, { once }) =>
  program
    .command('reload')
    .description('let a running gateway take its files as they are now')
    .option('--admin <url>', 'its admin listener (default: http://127.0.0.1:9090)', adminUrl)
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

/** Runs what the arguments ask for; resolves to the exit code. */
export async function run(edge: Edge): Promise<number> {
  const program = createProgram(edge)
  let code = OK
  const lasting: Does = (load) => async (options) => {
    code = await (await load())(edge, options)
  }
  const once: Does = (load) => (options) => {
    edge.attend(plainIncidents(edge))
    return lasting(load)(options)
  }
  for (const declare of [start, demo, catalogue, check, diff, reload, init, keys, worker])
    declare(program, { once, lasting })
  try {
    await program.parseAsync(edge.args, { from: 'user' })
    return code
  } catch (error) {
    // Its text has been written. What commander calls a failure is a usage that cannot be taken.
    if (error instanceof CommanderError) return error.exitCode === 0 ? OK : REFUSED
    edge.complain(`tollgate: ${(error as Error).message}`)
    return FAILED
  }
}

function createProgram(edge: Edge): Command {
  const write = (to: (line: string) => void) => (text: string) => to(text.replace(/\n$/, ''))
  return new Command('tollgate')
    .description('An API gateway with exact quotas per plan.')
    .version(edge.version, '-v, --version', 'show the version')
    .helpOption('-h, --help', 'show help')
    .helpCommand('help [command]', 'show help for a command')
    .addHelpText(
      'after',
      '\nExit codes: 0 clean stop, 1 the work failed, 2 usage or config refused',
    )
    .showHelpAfterError('Add --help to see what is taken.')
    .configureOutput({
      writeOut: write(edge.print),
      writeErr: write(edge.complain),
      outputError: (text, writeError) => writeError(text.replace(/^error: /, 'tollgate: ')),
    })
    .hook('preAction', (_program, command) => {
      for (const option of command.options)
        if (
          option instanceof NeededOption &&
          [option.attributeName(), option.unless ?? ''].every((name) => !(name in command.opts()))
        )
          command.error(`error: option ${option.flags} is missing`)
    })
    .exitOverride()
}

const plainIncidents = (edge: Edge): Incidents => ({
  signal: () => edge.exit(FAILED),
  warning: ({ name, message }) => edge.complain(`tollgate: ${name}: ${message}`),
  crash: (error) => {
    edge.complain(`tollgate: ${String(error instanceof Error ? error.stack : error)}`)
    edge.exit(FAILED)
  },
})

/** An option that is given once, with a value. */
function single(value: string, earlier: unknown): string {
  if (earlier !== undefined) throw new InvalidArgumentError('It is given twice; keep one.')
  if (value === '' || value.startsWith('-')) throw new InvalidArgumentError('It needs a value.')
  return value
}

function adminUrl(value: string, earlier: unknown): string {
  const url = single(value, earlier)
  if (/^https?:/.test(url) && URL.canParse(url)) return url
  throw new InvalidArgumentError('Write http://HOST:PORT.')
}

function hostAndPort(value: string, earlier: unknown): ListenAddress {
  const shape = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+)):(\d{1,5})$/
  const [, bracketed, host = bracketed, port] = shape.exec(single(value, earlier)) ?? []
  if (host === undefined || Number(port) > 65_535)
    throw new InvalidArgumentError('Write HOST:PORT such as 127.0.0.1:3000.')
  return { host, port: Number(port) }
}
