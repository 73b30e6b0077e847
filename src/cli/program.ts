/** The building blocks of command declarations: no other file knows the library that parses the arguments. */
import { Argument, Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { HELP_HINT, usageFault } from './terminal/fault.ts'
import type { Edge } from './edge.ts'

/** Exit code of a command; nothing: it has succeeded. */
type Code = number | void
type Run<Options> = (edge: Edge, options: Options, command: Command) => Code | Promise<Code>

/**
 * Runs a command. Its arguments are passed among its options, by their names. load: what takes time to load is imported here.
 */
export type Does = <Options>(
  load: () => Run<Options> | Promise<Run<Options>>,
) => (...given: readonly unknown[]) => Promise<void>

/** Adds a command to the program. lasting: it attends to signals itself; once: a signal ends it at once. */
export type Declaration = (
  program: Command,
  does: { readonly once: Does; readonly lasting: Does },
) => void

/** An option whose absence is reported last: a misspelt option comes first, with a suggestion. */
export class NeededOption extends Option {
  readonly unless: string | undefined

  /** unless: the option beside which it is not needed. */
  constructor(flags: string, description: string, unless?: string) {
    super(flags, `${description} (required${unless === undefined ? '' : ` without --${unless}`})`)
    this.argParser(single)
    this.unless = unless
  }
}

/** Gives each option with a value that parser which takes it once, unless it has one of its own. */
class Program extends Command {
  override createCommand(name?: string): Command {
    return new Program(name)
  }

  override createOption(flags: string, description?: string): Option {
    const option = new Option(flags, description)
    return option.required ? option.argParser(single) : option
  }
}

function single(value: string, earlier: unknown): string {
  if (earlier !== undefined) throw new InvalidArgumentError('It is given twice; keep one.')
  if (value === '' || value.startsWith('-')) throw new InvalidArgumentError('It needs a value.')
  return value
}

export function adminUrl(value: string, earlier: unknown): string {
  const url = single(value, earlier)
  if (/^https?:/.test(url) && URL.canParse(url)) return url
  throw new InvalidArgumentError('Write http://HOST:PORT.')
}

/** Takes a percentage as a fraction of 1. */
export function percentage(value: string, earlier: unknown): number {
  const [, percent] = /^(\d{1,2}(?:\.\d+)?)%$/.exec(single(value, earlier)) ?? []
  if (percent === undefined) throw new InvalidArgumentError('Write a share such as 1% or 0.5%.')
  return Number(percent) / 100
}

/** Loads node:http, but not what its import would load by reading all its members: Node's fetch, a tenth of the time of a short command. */
export function loadHttp() {
  const http = process.getBuiltinModule('node:http')
  for (const name of ['WebSocket', 'CloseEvent', 'MessageEvent']) Reflect.deleteProperty(http, name)
  return http
}

export const TOKEN_HELP =
  '\nThe admin token comes from the environment variable TOLLGATE_ADMIN_TOKEN. Over https, PEM files:\nTOLLGATE_ADMIN_CERT and TOLLGATE_ADMIN_KEY are shown, TOLLGATE_ADMIN_CA is whom to trust.'

export const choice = (flags: string, description: string, choices: readonly string[]): Option =>
  new Option(flags, description).choices(choices)

export const chosen = (name: string, choices: readonly string[]): Argument =>
  new Argument(name).choices(choices)

/** Options, some of which the parent command parses as it has them too, and arguments: KEY-ID is key. */
export function optionsAndArguments(command: Command): object {
  const named = command.registeredArguments.map((argument, at) => [
    argument.name().replace(/-id$/, ''),
    command.processedArgs[at] as unknown,
  ])
  return { ...command.optsWithGlobals<object>(), ...(Object.fromEntries(named) as object) }
}

/** Lets commands have options of their own, as `usage reset` has another --day than `usage`; --no-color counts behind each. */
export function separateOptions(command: Command): void {
  command.enablePositionalOptions()
  for (const each of command.commands) {
    each.addOption(new Option('--no-color').hideHelp())
    separateOptions(each)
  }
}

/** Classifies what a parse has thrown. isAnswered: help or the version was printed. */
export function usageEnd(error: unknown) {
  if (!(error instanceof CommanderError)) return { isUsage: false, isAnswered: false, fault: error }
  const message = error.message.replace(/^error: /, '')
  return { isUsage: true, isAnswered: error.exitCode === 0, fault: usageFault(message) }
}

export function createProgram(edge: Edge, isJson: boolean): Command {
  const write = (to: (line: string) => void) => (text: string) => to(text.replace(/\n$/, ''))
  return new Program('tollgate')
    .description('An API gateway with exact quotas per plan.')
    .version(edge.version, '-v, --version', 'show the version')
    .helpOption('-h, --help', 'show help')
    .addHelpCommand(
      new Command('help')
        .argument('[command]')
        .description('show help for a command')
        .helpGroup('Config:'),
    )
    .addHelpText(
      'after',
      '\nExit codes: 0 clean stop, 1 the work failed, 2 usage or config refused',
    )
    .option('--no-color', 'no colours, on a terminal either')
    .showHelpAfterError(isJson ? false : HELP_HINT)
    .configureOutput({
      writeOut: write(edge.print),
      writeErr: write(edge.complain),
      outputError: (text, writeError) => {
        if (!isJson) writeError(text.replace(/^error: /, 'tollgate: '))
      },
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
