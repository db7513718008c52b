-- A second wall between users: a transaction sees the rows of the user whom it named, or everyone's where it said so.
-- Superusers, and roles with BYPASSRLS, are not held by it.
DO $$
DECLARE
    named regclass;
BEGIN
    FOR named IN
        SELECT c.oid FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'user_id'
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relrowsecurity
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', named);
        EXECUTE format(
            'CREATE POLICY own_rows ON %s USING (user_id = (SELECT current_setting(''loomflow.user_id'', true))
                OR (SELECT current_setting(''loomflow.everyone'', true)) = ''on'')', named);
    END LOOP;
END $$;
