import { describe, expect, it } from 'vitest'
import type { RouteConfig } from '../../../src/config/config.ts'
import { compileRoutes, UNMATCHED } from '../../../src/core/rules/routes.ts'

function route(name: string, match: string, more: Partial<RouteConfig> = {}): RouteConfig {
  const [method = '', path = ''] = match.split(' ')
  const none = { deprecated: undefined, stability: undefined, responseTimeoutMs: undefined }
  return { name, method, path, ...none, websocket: false, ...more }
}

const deprecated = { sinceMs: 0, afterSunset: 'announce', brownouts: [] } as const
const routes = [
  route('listPets', 'GET /pets'),
  route('createPet', 'POST /pets'),
  route('getPet', 'GET /pets/{petId}', { deprecated }),
  route('replacePet', 'PUT /pets/{petId}', { responseTimeoutMs: 5 }),
  route('mine', 'GET /pets/mine'),
  route('photos', 'GET /{kind}/{id}/photos'),
  route('petPhotos', 'GET /pets/{id}/photos'),
  route('onePhoto', 'DELETE /pets/1/{part}'),
  route('feed', 'GET /feed', { websocket: true, stability: 'beta' }),
]
const table = compileRoutes({ routes, basePath: '/v1' })

describe('routes', () => {
  it.each([
    ['GET', '/v1/pets', 'listPets'],
    ['HEAD', '/v1/pets', 'listPets'],
    ['GET', '/v1/pets/7', 'getPet'],
    ['GET', '/v1/pets/a%20b', 'getPet'],
    ['GET', '/v1/pets/mine', 'mine'],
    ['PUT', '/v1/pets/mine', 'replacePet'],
    ['GET', '/v1/pets/7/photos', 'petPhotos'],
    ['GET', '/v1/cats/7/photos', 'photos'],
    ['DELETE', '/v1/pets/1/photos', 'onePhoto'],
  ])('%s %s is %s', (method, path, name) => {
    expect(table.match(method, path)).toMatchObject({ name })
  })

  it.each([
    ['DELETE', '/v1/pets', 'GET, HEAD, POST'],
    ['HEAD', '/v1/pets/1/none', 'DELETE'],
    ['POST', '/v1/pets/mine', 'GET, HEAD, PUT'],
    ['OPTIONS', '/v1/pets/1/photos', 'DELETE, GET, HEAD'],
    ['GET', '/v1', ''],
    ['GET', '/v1/', ''],
    ['GET', '/v1/pets/', ''],
    ['GET', '/v1/Pets', ''],
    ['GET', '/v1/pets/7/photos/1', ''],
    ['GET', '/v1/__proto__', ''],
    ['constructor', '/v1/nothing', ''],
  ])('%s %s is unmatched and the path takes %j', (method, path, allow) => {
    const match = table.match(method, path)
    expect(table.methodsAt(path).join(', ')).toBe(allow)
    expect(match).toBe(UNMATCHED)
  })

  it.each(['/', '/v1x', '/v', '/v2/pets', '/pets', '/V1/pets', '/x/v1/pets', '*'])(
    '%s is outside the base path',
    (path) => {
      expect(table.match('GET', path)).toBeUndefined()
    },
  )

  it('keeps what stages need', () => {
    expect(table.match('GET', '/v1/feed')).toMatchObject({
      name: 'feed',
      template: '/v1/feed',
      lifecycleHeaders: ['X-API-Stability', 'beta'],
      websocket: true,
      responseTimeoutMs: undefined,
      deprecated: false,
    })
    const of = (method: string) => table.match(method, '/v1/pets/7')
    const current = { deprecated: false, lifecycleHeaders: [] }
    expect(of('HEAD')).toMatchObject({ deprecated: true, lifecycleHeaders: ['Deprecation', '@0'] })
    expect(of('PUT')).toMatchObject({ ...current, responseTimeoutMs: 5 })
    // Nothing of the deprecation of one method is said on another method of its path.
    expect(of('DELETE')).toMatchObject(current)
  })

  it('has nothing outside when the base path is the root', () => {
    const routes = [route('root', 'GET /'), route('pets', 'GET /pets'), route('any', 'GET /{x}')]
    const rooted = compileRoutes({ routes, basePath: '' })
    const names = ['/', '/pets', '/cats', '/a/b'].map((path) => rooted.match('GET', path)?.name)
    expect(names).toEqual(['root', 'pets', 'any', 'unmatched'])
  })

  it('takes a route for / at the base path with and without the final slash', () => {
    const table = compileRoutes({ routes: [route('root', 'GET /')], basePath: '/v1' })
    for (const path of ['/v1', '/v1/']) expect(table.match('GET', path)?.name).toBe('root')
    expect(table.match('GET', '/')).toBeUndefined()
  })
})
