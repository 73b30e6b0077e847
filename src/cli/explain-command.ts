/** Part of the list of commands: `tollgate explain`, by a configuration, by a log, or by a running gateway. */
import { usageFault } from './terminal/fault.ts'
import { ADMIN, single, TOKEN_HELP, type Declaration } from './program.ts'

const several = (value: string, earlier: string[] | undefined): string[] => [
  ...(earlier ?? []),
  value,
]

interface Asked {
  readonly log?: string
  readonly config?: string
  readonly key?: string
  readonly header?: readonly string[]
  readonly used?: string
  readonly at?: string
}

/** A method or a path alone: no id of a request looks like it. */
const HALF_A_REQUEST = /^(?:\/\S*|GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT)$/i

/** Refuses options that would be ignored in silence. */
function check(what: string, { log, config, key, header, used, at }: Asked): void {
  if (HALF_A_REQUEST.test(what.trim()))
    throw usageFault(`${what}: write a request as "GET /v1/pets/7", with --key`)
  if (log !== undefined && (used ?? key ?? header) !== undefined)
    throw usageFault('--used, --key and -H are of a request such as "GET /v1/pets", not of --log')
  if (used !== undefined && config === undefined) throw usageFault('--used needs --config')
  if (at !== undefined && (config ?? log) === undefined)
    throw usageFault('--at needs --config, or --log')
}

export const explain: Declaration = (program, { once }) => {
  const running = once(async () => (await import('./operator/explain.ts')).explainCommand)
  const logged = once(async () => (await import('./explain-logged.ts')).explainLoggedCommand)
  const offline = once(async () => (await import('./explain-offline.ts')).explainOfflineCommand)
  program
    .command('explain')
    .description('why a request was answered as it was, or how one would be')
    .argument('<what>', 'a request id, or a request such as "GET /v1/pets/7"')
    .option('--key <key-id>', 'whose request it would be (default: without a credential)', single)
    .option('-H, --header <line>', 'of the request, as "Name: value"; may be repeated', several)
    .option(...ADMIN)
    .option('--log <file>', 'look for the request id there (.gz too); best with --config', single)
    .option('--config <file>', 'explain by this configuration, and ask no gateway', single)
    .option('--used <counts>', 'what its client has used, as minute=N,day=N (default: 0)', single)
    .option('--at <time>', 'when it would come; of several in the log when it began', single)
    .option('--json', 'as JSON')
    .addHelpText('after', TOKEN_HELP)
    .action((what: string, asked: Asked) => {
      check(what, asked)
      const { log, config, ...options } = asked
      if (log !== undefined) return logged({ ...options, what, log, ...(config && { config }) })
      if (config !== undefined) return offline({ ...options, what, config })
      return running({ ...options, what })
    })
}
