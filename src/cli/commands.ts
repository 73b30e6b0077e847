/** The only list of commands: what each is called, takes and does. What it runs is loaded when it is asked for. */
import { randomBytes } from 'node:crypto'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import type { ListenAddress } from '../config/config.ts'
import { FAILED, OK, REFUSED, type Edge, type Incidents } from './edge.ts'

type Action<Options> = (options: Options) => Promise<void>

interface Parts {
  readonly program: Command
  readonly edge: Edge
  /** What ends by itself, with an exit code; a signal ends it at once. */
  once<Options>(work: (options: Options) => Promise<number>): Action<Options>
  /** What attends to signals itself. */
  lasting<Options>(work: (options: Options) => Promise<number>): Action<Options>
}

/** Adds a command to the program. */
type Declaration = (parts: Parts) => void

/** Its absence is told last: a misspelt option comes first, with a suggestion. */
class NeededOption extends Option {
  constructor(flags: string, description: string) {
    super(flags, `${description} (required)`)
  }
}

const start: Declaration = ({ program, edge, lasting }) =>
  program
    .command('start')
    .description('the gateway and its admin listener')
    .addOption(new NeededOption('--config <file>', 'the configuration').argParser(single))
    .action(
      lasting(async (options: { config: string }) => {
        const { startCommand } = await import('./start.ts')
        return startCommand(options, edge)
      }),
    )

const demo: Declaration = ({ program, edge, lasting }) =>
  program
    .command('demo')
    .description('gateway, admin listener and catalogue service, with demo keys')
    .option('--config <file>', 'the configuration (default: the example that comes along)', single)
    .option(
      '--db <file>',
      'where the catalogue keeps its animals (default: data/catalogue.db)',
      single,
    )
    .action(
      lasting(async (options: { config?: string; db?: string }) => {
        const { demoCommand } = await import('./demo.ts')
        return demoCommand(options, edge)
      }),
    )

const catalogue: Declaration = ({ program, edge, lasting }) =>
  program
    .command('catalogue')
    .description('the catalogue service only, the reference backend')
    .addOption(new NeededOption('--listen <host:port>', 'where it listens').argParser(hostAndPort))
    .addOption(new NeededOption('--db <file>', 'where it keeps its animals').argParser(single))
    .action(
      lasting(async (options: { listen: ListenAddress; db: string }) => {
        const { catalogueCommand } = await import('./catalogue.ts')
        return catalogueCommand(options, edge)
      }),
    )

const check: Declaration = ({ program, edge, once }) =>
  program
    .command('check')
    .description('read a configuration and name every problem')
    .addOption(new NeededOption('--config <file>', 'the configuration').argParser(single))
    .action(
      once(async ({ config }: { config: string }) => {
        const { checkCommand } = await import('./check.ts')
        return checkCommand({ file: config, env: edge.env, print: edge.print })
      }),
    )

const keysNew: Declaration = ({ program, edge, once }) =>
  program
    .command('keys')
    .description('API keys')
    .command('new')
    .description('make an API key, show it once, and print the YAML that lets it in')
    .addOption(new NeededOption('--client <id>', 'whose key it is').argParser(single))
    .addOption(new NeededOption('--plan <plan>', "the client's plan").argParser(single))
    .option('--expires <date>', 'a date or a timestamp with its zone (default: never)', single)
    .action(
      once(async (options: { client: string; plan: string; expires?: string }) => {
        const { keysNewCommand } = await import('./keys.ts')
        return keysNewCommand({
          ...options,
          expires: options.expires,
          nowMs: Date.now(),
          randomBytes,
          print: edge.print,
          complain: (fault) => edge.complain(`tollgate: ${fault}`),
        })
      }),
    )

const worker: Declaration = ({ program, edge, lasting }) =>
  program.command('worker', { hidden: true }).action(
    lasting(async () => {
      const { workerCommand } = await import('./worker.ts')
      return workerCommand(edge)
    }),
  )

const declarations = [start, demo, catalogue, check, keysNew, worker]

/** Runs what the arguments ask for; resolves to the exit code. */
export async function run(edge: Edge): Promise<number> {
  const program = createProgram(edge)
  let code = OK
  const does =
    (prepare: () => void) =>
    <Options>(work: (options: Options) => Promise<number>): Action<Options> =>
    async (options) => {
      prepare()
      code = await work(options)
    }
  const parts = {
    program,
    edge,
    once: does(() => edge.attend(plainIncidents(edge))),
    lasting: does(() => undefined),
  }
  for (const declare of declarations) declare(parts)
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
        if (option instanceof NeededOption && !(option.attributeName() in command.opts()))
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
function single(value: string, earlier: string | undefined): string {
  if (earlier !== undefined) throw new InvalidArgumentError('It is given twice; keep one.')
  if (value === '' || value.startsWith('-')) throw new InvalidArgumentError('It needs a value.')
  return value
}

function hostAndPort(value: string, earlier: ListenAddress | undefined): ListenAddress {
  if (earlier !== undefined) throw new InvalidArgumentError('It is given twice; keep one.')
  const found = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(value)
  const port = Number(found?.[3])
  const host = found?.[1] ?? found?.[2]
  if (host === undefined || port > 65_535)
    throw new InvalidArgumentError('Write HOST:PORT such as 127.0.0.1:3000.')
  return { host, port }
}
