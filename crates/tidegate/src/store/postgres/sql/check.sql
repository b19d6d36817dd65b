SELECT {clock}, t.quota, t.state FROM (VALUES (1)) AS one (row) LEFT JOIN {table} t ON t.key = $1
