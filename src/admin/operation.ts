/** An operation of the admin API: its input and its result. operations.ts lists them all. */
import type { IncomingMessage } from 'node:http'
import type { Answer } from './answers.ts'

type Params = Readonly<Record<string, string>>

type ParamsOf<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Readonly<Record<Name, string>> & ParamsOf<Rest>
  : unknown

/** Named: type of the values in the path, which are decoded, never empty, and without control characters. */
export interface Call<Named = unknown> {
  readonly request: IncomingMessage
  /** Name of the caller for the audit log. */
  readonly who: string
  readonly params: Named
  readonly query: URLSearchParams
}

/** Result of a change: the answer, and what the audit line has besides who, action and status. */
export interface Changed {
  readonly answer: Answer
  readonly audit: {
    readonly before?: unknown
    readonly after?: unknown
    readonly [detail: string]: unknown
  }
}

export interface Operation<Parts> {
  readonly method: string
  readonly path: string
  /** Name in the audit log; undefined: the operation changes nothing. */
  readonly action: string | undefined
  readonly run: (parts: Parts, call: Call<Params>) => Answer | Changed | Promise<Answer | Changed>
}

type Handler<Parts, Path extends string, Made> = (
  parts: Parts,
  call: Call<ParamsOf<Path>>,
) => Made | Promise<Made>

// The parameters that a path names are the ones that a match of it brings.
export const look = <Parts, const Path extends string>(
  path: Path,
  handle: Handler<Parts, Path, Answer>,
): Operation<Parts> => ({
  method: 'GET',
  path,
  action: undefined,
  run: handle as Operation<Parts>['run'],
})

/** An operation that changes nothing, with its query in the body. */
export const inquire = <Parts, const Path extends string>(
  path: Path,
  handle: Handler<Parts, Path, Answer>,
): Operation<Parts> => ({ ...look(path, handle), method: 'POST' })

/** An operation that changes something; the audit log has a line of it whatever the outcome. */
export const change = <Parts, const Path extends string>(
  method: 'POST' | 'PUT' | 'DELETE',
  path: Path,
  { action, handle }: { readonly action: string; readonly handle: Handler<Parts, Path, Changed> },
): Operation<Parts> => ({ method, path, action, run: handle as Operation<Parts>['run'] })

/** undefined: the path does not match. */
export function matchPath(pattern: string, path: string): Params | undefined {
  const [wanted, given] = [pattern.split('/'), path.split('/')]
  if (wanted.length !== given.length) return undefined
  const params: Record<string, string> = {}
  for (const [at, name] of wanted.entries()) {
    const written = given[at] ?? ''
    const value = name.startsWith('{') ? decoded(written) : undefined
    if (value === undefined && written !== name) return undefined
    if (value !== undefined) params[name.slice(1, -1)] = value
  }
  return params
}

/** undefined: no name is written like this. */
function decoded(written: string): string | undefined {
  try {
    const text = decodeURIComponent(written)
    // eslint-disable-next-line no-control-regex
    return text === '' || /[\0-\x1f\x7f]/.test(text) ? undefined : text
  } catch {
    return undefined
  }
}
