/** The leaf `METHOD /path/{param}`: which requests a route names. */
import { text } from './scalars.ts'

export interface RouteMatch {
  readonly method: string
  readonly path: string
  /** Method and path with every parameter as `{}`: equal for two routes that match the same requests. */
  readonly shape: string
}

/** HEAD follows GET, and OPTIONS is no operation of its own: neither is matched by name. */
const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

const parameter = /^\{([A-Za-z_][A-Za-z0-9_]*)\}$/
/** The unreserved and sub-delimiter characters of RFC 3986 section 3.3, no percent-encoding and no dot segments. */
const literal = /^(?!\.{1,2}$)[A-Za-z0-9._~!$&'()*+,;=:@-]+$/

const methodAndPath = new RegExp(`^(${methods.join('|')}) (/\\S*)$`)

export const routeMatch = text
  .regex(
    methodAndPath,
    `is not "METHOD /path"; write a method of ${methods.join(', ')} (HEAD follows GET), one space, and a path`,
  )
  .transform((written, context): RouteMatch => {
    const [, method = '', path = ''] = methodAndPath.exec(written) ?? []
    const segments = path === '/' ? [] : path.slice(1).split('/')
    const names = segments.flatMap((segment) => parameter.exec(segment)?.[1] ?? [])
    if (!segments.every((segment) => parameter.test(segment) || literal.test(segment))) {
      context.addIssue(
        'has a path that cannot be matched; write plain segments or {name}, such as /pets/{petId}, without a final "/"',
      )
    }
    if (new Set(names).size < names.length) {
      context.addIssue('names one parameter twice; give each its own name')
    }
    const shape = segments.map((segment) => (parameter.test(segment) ? '{}' : segment)).join('/')
    return { method, path, shape: `${method} /${shape}` }
  })
