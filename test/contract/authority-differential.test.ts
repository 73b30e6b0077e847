import { compareAuthorities } from './authority-differential.ts'

compareAuthorities(50, 2026)
