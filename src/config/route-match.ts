/** Reads `METHOD /path/{param}`: which requests a route names. */
import type { Reader } from './scalars.ts'

export interface RouteMatch {
  readonly method: string
  readonly path: string
  /** Method and path with every parameter as `{}`: equal for two routes that match the same requests. */
  readonly shape: string
}

/** HEAD follows GET, and OPTIONS is no operation of its own: neither is matched by name. */
export const routeMethods: readonly string[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

const parameter = /^\{([A-Za-z_][A-Za-z0-9_]*)\}$/
/** The unreserved and sub-delimiter characters of RFC 3986 section 3.3, no percent-encoding and no dot segments. */
const literal = /^(?!\.{1,2}$)[A-Za-z0-9._~!$&'()*+,;=:@-]+$/

export const routeMatch: Reader<RouteMatch> = (text) => {
  const [, method = '', path = ''] = /^([A-Za-z]+) (\/\S*)$/.exec(text) ?? []
  if (!routeMethods.includes(method)) {
    return {
      fault: `is not "METHOD /path"; write a method of ${routeMethods.join(', ')} (HEAD follows GET), one space, and a path`,
    }
  }
  const segments = path === '/' ? [] : path.slice(1).split('/')
  const names = segments.flatMap((segment) => parameter.exec(segment)?.[1] ?? [])
  if (!segments.every((segment) => parameter.test(segment) || literal.test(segment))) {
    return {
      fault:
        'has a path that cannot be matched; write plain segments or {name}, such as /pets/{petId}, without a final "/"',
    }
  }
  if (new Set(names).size < names.length) {
    return { fault: 'names one parameter twice; give each its own name' }
  }
  const shape = segments.map((segment) => (parameter.test(segment) ? '{}' : segment)).join('/')
  return { value: { method, path, shape: `${method} /${shape}` } }
}
